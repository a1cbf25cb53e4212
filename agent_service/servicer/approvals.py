"""ApprovalService."""

from collections.abc import Callable

from agent_service.records.events import Decision
from agent_service.servicer.fields import Context, profile_of
from agent_service.storage import approvals as storage
from agent_service.storage.approvals import Answer
from agent_service.turns.service import Turns
from hermes.agent.v1 import approval_pb2 as pb
from hermes.agent.v1 import turn_event_pb2
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceServicer
from services.database import Database
from services.errors import InvalidArgument
from services.rpc.messages import message_of
from services.validation import denied_commands

MAX_ANSWER_CHARS = 100_000
MAX_ANSWER_ID_CHARS = 200

_DECISIONS: dict[int, Decision] = {
    turn_event_pb2.APPROVAL_DECISION_ONCE: Decision.ONCE,
    turn_event_pb2.APPROVAL_DECISION_SESSION: Decision.SESSION,
    turn_event_pb2.APPROVAL_DECISION_ALWAYS: Decision.ALWAYS,
    turn_event_pb2.APPROVAL_DECISION_DENY: Decision.DENY,
    turn_event_pb2.APPROVAL_DECISION_NOBODY: Decision.NOBODY,
}


class ApprovalServicer(ApprovalServiceServicer):
    """Serves approvals."""

    def __init__(self, database: Database, turns: Turns, redact: Callable[[str], str]) -> None:
        """`redact` removes secrets from answers."""
        self._database = database
        self._redact = redact
        self._turns = turns

    async def ListApprovals(
        self, request: pb.ListApprovalsRequest, context: Context
    ) -> pb.ListApprovalsResponse:
        profile = profile_of(request.profile)
        found = await self._database.read(
            lambda conn: storage.list_open(conn, profile, request.session_id)
        )
        return pb.ListApprovalsResponse(approvals=[message_of(info, pb.Approval) for info in found])

    async def ResolveApproval(
        self, request: pb.ResolveApprovalRequest, context: Context
    ) -> pb.ResolveApprovalResponse:
        if request.decision not in _DECISIONS:
            raise InvalidArgument(
                "not a decision", fields={"decision": "ONCE, SESSION, ALWAYS, DENY or NOBODY"}
            )
        info = await self._turns.resolve(
            request.approval_id,
            profile_of(request.profile),
            _DECISIONS[request.decision],
            request.decided_by,
        )
        return pb.ResolveApprovalResponse(approval=message_of(info, pb.Approval))

    async def AnswerClarification(
        self, request: pb.AnswerClarificationRequest, context: Context
    ) -> pb.AnswerClarificationResponse:
        if not request.clarification_id and not request.session_id:
            raise InvalidArgument("no question", fields={"clarification_id": "or session_id"})
        if not request.answer.strip() or len(request.answer) > MAX_ANSWER_CHARS:
            limit = f"1 to {MAX_ANSWER_CHARS} characters"
            raise InvalidArgument("that is no answer", fields={"answer": limit})
        given = Answer(
            profile=profile_of(request.profile),
            text=self._redact(request.answer).replace("\0", ""),
            answered_by=request.answered_by,
            clarification_id=request.clarification_id,
            session_id=request.session_id,
            answer_id=request.answer_id[:MAX_ANSWER_ID_CHARS],
            denied=denied_commands(request.denied_commands),
        )
        answered = await self._turns.answer(given)
        return pb.AnswerClarificationResponse(
            clarification_id=answered.approval_id, turn_id=answered.turn_id
        )


def decision_number(taken: Decision) -> turn_event_pb2.ApprovalDecision.ValueType:
    """Return a decision on the wire."""
    return turn_event_pb2.ApprovalDecision.Value(f"APPROVAL_DECISION_{taken.name}")
