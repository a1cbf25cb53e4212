"""What a turn asks whoever sits at the terminal, and what answers say."""

from collections.abc import Mapping

from msgspec import Struct
from rich.text import Text

from hermes.agent.v1 import turn_event_pb2
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from services.cli.console import printable

ALLOW, ANSWER = "allow? ", "answer > "
KEYS, KEYS_OF_TOOL = "[y]es, this [s]ession, [a]lways, [n]o", "[y]es, this [s]ession, [n]o"
HINT = "Say yes, session, always or no; Ctrl-C stops everything."
HINT_OF_TOOL = "Say yes, session or no; Ctrl-C stops everything."
LATE, ELSEWHERE = "Nobody answered in time.", "That was answered elsewhere."
ROOM = 20
"""Columns that a label leaves to what is typed behind it."""

DECIDING = ("/approve", "/deny")
"""Commands that answer what is asked, and are not said to the gateway."""

_DECISIONS: Mapping[str, turn_event_pb2.ApprovalDecision.ValueType] = {
    **dict.fromkeys(("y", "yes", "once", "/approve"), turn_event_pb2.APPROVAL_DECISION_ONCE),
    **dict.fromkeys(("s", "session", "/approve session"), turn_event_pb2.APPROVAL_DECISION_SESSION),
    **dict.fromkeys(("a", "always", "/approve always"), turn_event_pb2.APPROVAL_DECISION_ALWAYS),
    **dict.fromkeys(("n", "no", "deny", "/deny"), turn_event_pb2.APPROVAL_DECISION_DENY),
}
_DECISIONS_OF_TOOL = {
    word: taken
    for word, taken in _DECISIONS.items()
    if taken != turn_event_pb2.APPROVAL_DECISION_ALWAYS
}

Decision = turn_event_pb2.ApprovalDecision.ValueType


class Approval(Struct, frozen=True):
    """Something that is done only if a person allows it."""

    turn_id: str
    asked: turn_event_pb2.ApprovalRequested

    @property
    def id(self) -> str:
        """Its id."""
        return self.asked.approval_id

    @property
    def text(self) -> Text:
        """What would be done."""
        text = Text(f"{printable(self.asked.tool)} wants to run:", style="yellow")
        return text.append(f"\n{printable(self.asked.subject)}", style="bold not yellow")

    @property
    def hint(self) -> str:
        """What can be said."""
        return HINT if self.asked.can_be_always else HINT_OF_TOOL

    def label(self, columns: int) -> str:
        """What stands before the answer; the keys only where there is room for them."""
        keys = KEYS if self.asked.can_be_always else KEYS_OF_TOOL
        label = f"{ALLOW}{keys} > "
        return label if len(label) + ROOM <= columns else f"{ALLOW}> "

    def decision(self, said: str) -> Decision | None:
        """What an answer decides; None where that is not clear."""
        decisions = _DECISIONS if self.asked.can_be_always else _DECISIONS_OF_TOOL
        return decisions.get(" ".join(said.lower().split()))


class Clarification(Struct, frozen=True):
    """Something that the model wants to know."""

    turn_id: str
    asked: turn_event_pb2.ClarificationRequested

    @property
    def id(self) -> str:
        """Its id."""
        return self.asked.clarification_id

    @property
    def text(self) -> Text:
        """The question, and answers to choose from."""
        choices = (f"  {number}. {choice}" for number, choice in enumerate(self.asked.choices, 1))
        return Text(printable("\n".join((self.asked.question, *choices))), style="bold")

    def label(self, _columns: int) -> str:
        """What stands before the answer."""
        return ANSWER


Question = Approval | Clarification


class Questions:
    """Those that are open, of which the first one is to be answered."""

    def __init__(self) -> None:
        self._open: dict[str, Question] = {}

    @property
    def first(self) -> Question | None:
        """The one to answer; None where nothing is asked."""
        return next(iter(self._open.values()), None)

    def is_open(self, question: Question) -> bool:
        """Whether an answer is still waited for."""
        return question.id in self._open

    def end(self, question: Question) -> None:
        """It is answered here."""
        self._open.pop(question.id, None)

    def follow(self, turn_id: str, event: TurnEvent) -> str:
        """Take note of what is asked and answered; what to say where a question goes by itself."""
        match event.WhichOneof("kind"):
            case "approval_requested":
                approval = Approval(turn_id, event.approval_requested)
                self._open[approval.id] = approval
            case "clarification_requested":
                clarification = Clarification(turn_id, event.clarification_requested)
                self._open[clarification.id] = clarification
            case "approval_resolved":
                resolved = event.approval_resolved
                is_late = resolved.decision == turn_event_pb2.APPROVAL_DECISION_EXPIRED
                return self._gone(resolved.approval_id, is_late=is_late)
            case "clarification_answered":
                answered = event.clarification_answered
                return self._gone(answered.clarification_id, is_late=answered.expired)
            case "turn_finished":
                for question in list(self._open.values()):
                    if question.turn_id == turn_id:
                        self.end(question)
            case _:
                pass
        return ""

    def _gone(self, question_id: str, *, is_late: bool) -> str:
        if self._open.pop(question_id, None) is None:
            return ""  # answered here
        return LATE if is_late else ELSEWHERE
