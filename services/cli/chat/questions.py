"""Questions of a turn to the person at the terminal, and their answers."""

from collections.abc import Mapping

from msgspec import Struct

from hermes.agent.v1 import turn_event_pb2 as pb
from hermes.agent.v1.turn_event_pb2 import TurnEvent

LATE, ELSEWHERE = "Nobody answered in time.", "Somebody answered elsewhere."

DECIDING = ("/approve", "/deny")
"""Commands that answer a question and are not sent to the gateway."""

Decision = pb.ApprovalDecision.ValueType

_DECISIONS: Mapping[str, Decision] = {
    **dict.fromkeys(("y", "yes", "once", "/approve"), pb.APPROVAL_DECISION_ONCE),
    **dict.fromkeys(("s", "session", "/approve session"), pb.APPROVAL_DECISION_SESSION),
    **dict.fromkeys(("a", "always", "/approve always"), pb.APPROVAL_DECISION_ALWAYS),
    **dict.fromkeys(("n", "no", "deny", "/deny"), pb.APPROVAL_DECISION_DENY),
}


class Question(Struct, frozen=True):
    """A call to approve, or a question to answer in words."""

    turn_id: str
    asked: pb.ApprovalRequested | pb.ClarificationRequested

    @property
    def id(self) -> str:
        if isinstance(self.asked, pb.ApprovalRequested):
            return self.asked.approval_id
        return self.asked.clarification_id

    @property
    def is_approval(self) -> bool:
        return isinstance(self.asked, pb.ApprovalRequested)

    @property
    def lines(self) -> list[tuple[str, str]]:
        if isinstance(self.asked, pb.ApprovalRequested):
            return [(f"{self.asked.tool} wants to run:", "yellow"), (self.asked.subject, "bold")]
        choices = (f"  {number}. {choice}" for number, choice in enumerate(self.asked.choices, 1))
        return [("\n".join((self.asked.question, *choices)), "bold")]

    @property
    def hint(self) -> str:
        always = ", always" if self._can_be_always else ""
        return f"Type yes, session{always} or no. Ctrl-C stops the work."

    @property
    def label(self) -> str:
        if not self.is_approval:
            return "answer > "
        always = "[a]lways, " if self._can_be_always else ""
        return f"allow? [y]es, this [s]ession, {always}[n]o > "

    def decision(self, said: str) -> Decision | None:
        """Parse a decision; None if it is unclear."""
        decision = _DECISIONS.get(" ".join(said.lower().split()))
        if decision == pb.APPROVAL_DECISION_ALWAYS and not self._can_be_always:
            return None
        return decision

    @property
    def _can_be_always(self) -> bool:
        return isinstance(self.asked, pb.ApprovalRequested) and self.asked.can_be_always


def asked_in(turn_id: str, event: TurnEvent) -> Question | None:
    """Return the question of an event."""
    match event.WhichOneof("kind"):
        case "approval_requested":
            return Question(turn_id, event.approval_requested)
        case "clarification_requested":
            return Question(turn_id, event.clarification_requested)
        case _:
            return None


def ended_in(event: TurnEvent) -> tuple[str, str]:
    """Return the question that an event ends, and a message unless it was answered here."""
    match event.WhichOneof("kind"):
        case "approval_resolved":
            resolved = event.approval_resolved
            is_late = resolved.decision == pb.APPROVAL_DECISION_EXPIRED
            return resolved.approval_id, LATE if is_late else ELSEWHERE
        case "clarification_answered":
            answered = event.clarification_answered
            return answered.clarification_id, LATE if answered.expired else ELSEWHERE
        case _:
            return "", ""
