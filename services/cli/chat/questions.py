"""What a turn asks the person at the terminal, and what the answers mean."""

from collections.abc import Mapping

from msgspec import Struct

from hermes.agent.v1 import turn_event_pb2 as pb
from hermes.agent.v1.turn_event_pb2 import TurnEvent

LATE, ELSEWHERE = "Nobody answered in time.", "That was answered elsewhere."
ROOM = 20
"""Columns that a label leaves to what is typed behind it."""

DECIDING = ("/approve", "/deny")
"""Commands that answer what is asked, and are not said to the gateway."""

Decision = pb.ApprovalDecision.ValueType

_DECISIONS: Mapping[str, Decision] = {
    **dict.fromkeys(("y", "yes", "once", "/approve"), pb.APPROVAL_DECISION_ONCE),
    **dict.fromkeys(("s", "session", "/approve session"), pb.APPROVAL_DECISION_SESSION),
    **dict.fromkeys(("a", "always", "/approve always"), pb.APPROVAL_DECISION_ALWAYS),
    **dict.fromkeys(("n", "no", "deny", "/deny"), pb.APPROVAL_DECISION_DENY),
}


class Question(Struct, frozen=True):
    """Something to allow, or to answer in words."""

    turn_id: str
    asked: pb.ApprovalRequested | pb.ClarificationRequested

    @property
    def id(self) -> str:
        """Its id."""
        if isinstance(self.asked, pb.ApprovalRequested):
            return self.asked.approval_id
        return self.asked.clarification_id

    @property
    def is_approval(self) -> bool:
        """Whether it is answered with a decision."""
        return isinstance(self.asked, pb.ApprovalRequested)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What is asked, with the style of each part."""
        if isinstance(self.asked, pb.ApprovalRequested):
            return [
                (f"{self.asked.tool} wants to run:", "yellow"),
                (self.asked.subject, "bold"),
            ]
        choices = (f"  {number}. {choice}" for number, choice in enumerate(self.asked.choices, 1))
        return [("\n".join((self.asked.question, *choices)), "bold")]

    @property
    def hint(self) -> str:
        """What can be said."""
        always = ", always" if self._can_be_always else ""
        return f"Say yes, session{always} or no; Ctrl-C stops everything."

    def label(self, columns: int) -> str:
        """What stands before the answer; the keys only where there is room for them."""
        if not self.is_approval:
            return "answer > "
        always = "[a]lways, " if self._can_be_always else ""
        label = f"allow? [y]es, this [s]ession, {always}[n]o > "
        return label if len(label) + ROOM <= columns else "allow? > "

    def decision(self, said: str) -> Decision | None:
        """What an answer decides; None where that is not clear."""
        decision = _DECISIONS.get(" ".join(said.lower().split()))
        if decision == pb.APPROVAL_DECISION_ALWAYS and not self._can_be_always:
            return None
        return decision

    @property
    def _can_be_always(self) -> bool:
        return isinstance(self.asked, pb.ApprovalRequested) and self.asked.can_be_always


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
                self._ask(Question(turn_id, event.approval_requested))
            case "clarification_requested":
                self._ask(Question(turn_id, event.clarification_requested))
            case "approval_resolved":
                resolved = event.approval_resolved
                is_late = resolved.decision == pb.APPROVAL_DECISION_EXPIRED
                return self._close(resolved.approval_id, is_late=is_late)
            case "clarification_answered":
                answered = event.clarification_answered
                return self._close(answered.clarification_id, is_late=answered.expired)
            case "turn_finished":
                self._open = {k: q for k, q in self._open.items() if q.turn_id != turn_id}
            case _:
                pass
        return ""

    def _ask(self, question: Question) -> None:
        self._open[question.id] = question

    def _close(self, question_id: str, *, is_late: bool) -> str:
        if self._open.pop(question_id, None) is None:
            return ""  # answered here
        return LATE if is_late else ELSEWHERE
