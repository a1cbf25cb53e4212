"""Approvals on the wire."""

from agent_service.convert.common import profile_of, timestamp
from agent_service.events import Decision
from agent_service.storage.approvals import ApprovalInfo
from agent_service.storage.clarifications import Answer
from hermes.agent.v1 import approval_pb2, turn_event_pb2
from services.errors import InvalidArgument
from services.validation import denied_commands

MAX_ANSWER_CHARS = 100_000
MAX_ANSWER_ID_CHARS = 200

_DECISIONS: dict[int, Decision] = {
    turn_event_pb2.APPROVAL_DECISION_ONCE: Decision.ONCE,
    turn_event_pb2.APPROVAL_DECISION_SESSION: Decision.SESSION,
    turn_event_pb2.APPROVAL_DECISION_ALWAYS: Decision.ALWAYS,
    turn_event_pb2.APPROVAL_DECISION_DENY: Decision.DENY,
}
_WIRE_DECISIONS = {
    Decision.ONCE: turn_event_pb2.APPROVAL_DECISION_ONCE,
    Decision.SESSION: turn_event_pb2.APPROVAL_DECISION_SESSION,
    Decision.ALWAYS: turn_event_pb2.APPROVAL_DECISION_ALWAYS,
    Decision.DENY: turn_event_pb2.APPROVAL_DECISION_DENY,
    Decision.EXPIRED: turn_event_pb2.APPROVAL_DECISION_EXPIRED,
}


def decision(number: int) -> Decision:
    """A decision that a person may take."""
    if number not in _DECISIONS:
        raise InvalidArgument(
            "not a decision", fields={"decision": "ONCE, SESSION, ALWAYS or DENY"}
        )
    return _DECISIONS[number]


def answer(request: approval_pb2.AnswerClarificationRequest) -> Answer:
    """A checked AnswerClarification; InvalidArgument names what is wrong."""
    if not request.clarification_id and not request.session_id:
        raise InvalidArgument("no question", fields={"clarification_id": "or session_id"})
    if not request.answer.strip() or len(request.answer) > MAX_ANSWER_CHARS:
        limit = f"1 to {MAX_ANSWER_CHARS} characters"
        raise InvalidArgument("that is no answer", fields={"answer": limit})
    return Answer(
        profile=profile_of(request.profile),
        text=request.answer,
        answered_by=request.answered_by,
        clarification_id=request.clarification_id,
        session_id=request.session_id,
        answer_id=request.answer_id[:MAX_ANSWER_ID_CHARS],
        denied=denied_commands(request.denied_commands),
    )


def wire_decision(taken: Decision) -> "turn_event_pb2.ApprovalDecision.ValueType":
    """A decision on the wire."""
    return _WIRE_DECISIONS[taken]


def approval(info: ApprovalInfo) -> approval_pb2.Approval:
    """An approval on the wire."""
    wire = approval_pb2.Approval(
        approval_id=info.id,
        turn_id=info.turn_id,
        session_id=info.session_id,
        tool=info.tool,
        subject=info.subject,
        create_time=timestamp(info.created_at),
        expire_time=timestamp(info.expires_at),
        decided_by=info.decided_by,
        requester=info.requester,
        platform=info.platform,
    )
    if info.decision is not None:
        wire.decision = wire_decision(info.decision)
    return wire
