"""Turn events on the wire."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from agent_service import events
from agent_service.events import Outcome
from agent_service.servicer.approvals import decision_number
from agent_service.servicer.fields import timestamp, usage
from hermes.agent.v1 import turn_event_pb2 as pb
from hermes.common.v1 import error_pb2

MESSAGE_BYTES = 512 * 1024
"""Events that come together are sent in messages of about so much."""

_FIELDS: dict[type[events.Event], str] = {
    events.TextDelta: "text_delta",
    events.ReasoningDelta: "reasoning_delta",
    events.TextSnapshot: "text_snapshot",
    events.ToolProgress: "tool_progress",
    events.Notice: "notice",
    events.TurnStarted: "turn_started",
    events.TextFinished: "text_finished",
    events.Noted: "notice",
    events.UsageReported: "usage_reported",
    events.ToolStarted: "tool_started",
    events.ToolFinished: "tool_finished",
    events.Compressed: "compressed",
    events.ApprovalRequested: "approval_requested",
    events.ApprovalResolved: "approval_resolved",
    events.ClarificationRequested: "clarification_requested",
    events.ClarificationAnswered: "clarification_answered",
    events.TurnFinished: "turn_finished",
}


def turn_event(recorded: events.Recorded) -> pb.TurnEvent:
    """An event as watchers get it."""
    event = recorded.event
    content: dict[str, Any] = {_FIELDS[type(event)]: _content(event)}
    return pb.TurnEvent(
        sequence=recorded.sequence,
        time=timestamp(recorded.time),
        attempt=recorded.attempt,
        ignorable=not recorded.sequence,
        **content,
    )


def in_messages(batch: Iterable[pb.TurnEvent]) -> Iterator[list[pb.TurnEvent]]:
    """A batch as so many messages that each is far from the longest that gRPC takes."""
    together: list[pb.TurnEvent] = []
    size_bytes = 0
    for event in batch:
        size_bytes += event.ByteSize()
        if together and size_bytes > MESSAGE_BYTES:
            yield together
            together, size_bytes = [], event.ByteSize()
        together.append(event)
    if together:
        yield together


def _content(event: events.Event) -> pb.TurnFinished | dict[str, Any]:
    """The event's message; most have the same fields as ours."""
    if isinstance(event, events.TurnFinished):
        return _turn_finished(event)
    fields: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    match event:
        case events.Noted():
            fields["lasts"] = True
        case events.UsageReported():
            fields["usage"] = usage(event.usage)
        case events.ToolFinished():
            fields["duration"] = timedelta(milliseconds=fields.pop("duration_ms"))
        case events.ApprovalRequested():
            fields["can_be_always"] = bool(fields.pop("binding"))
        case events.ApprovalResolved():
            fields["decision"] = decision_number(event.decision)
        case events.ClarificationAnswered():
            del fields["answer_id"]
        case _:
            pass
    if "expires_at" in fields:
        fields["expire_time"] = timestamp(fields.pop("expires_at"))
    return fields


def _turn_finished(event: events.TurnFinished) -> pb.TurnFinished:
    wire = pb.TurnFinished(usage=usage(event.usage))
    match event.outcome:
        case Outcome.COMPLETED:
            wire.completed.CopyFrom(pb.Completed(answer=event.text))
        case Outcome.FAILED:
            wire.failed.failure.reason = error_pb2.ErrorReason.Value(f"ERROR_REASON_{event.reason}")
            wire.failed.failure.message = event.message
            wire.failed.failure.retryable = event.retryable
            wire.failed.failure.cause = event.cause
        case Outcome.CANCELLED:
            wire.cancelled.partial_answer = event.text
            wire.cancelled.survivor_count = event.survivor_count
            wire.cancelled.message = event.message
            wire.cancelled.SetInParent()
        case Outcome.LIMIT_REACHED:
            wire.limit_reached.CopyFrom(
                pb.LimitReached(message=event.message, partial_answer=event.text)
            )
        case Outcome.NEEDS_REVIEW:
            wire.needs_review.CopyFrom(pb.NeedsReview(message=event.message))
    return wire
