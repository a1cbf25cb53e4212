"""Turn events on the wire."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration

from agent_service import events
from agent_service.convert.approvals import wire_decision
from agent_service.convert.common import timestamp, usage
from agent_service.events import Outcome
from hermes.agent.v1 import turn_event_pb2 as pb
from hermes.common.v1 import error_pb2

MESSAGE_BYTES = 512 * 1024
"""Events that come together are sent in messages of about so much."""


def turn_event(recorded: events.Recorded) -> pb.TurnEvent:
    """An event as watchers get it."""
    wire = pb.TurnEvent(
        sequence=recorded.sequence, time=timestamp(recorded.time), attempt=recorded.attempt
    )
    if recorded.sequence:
        _durable(wire, recorded.event)
    else:
        wire.ignorable = True
        _live(wire, recorded.event)
    return wire


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


def _live(wire: pb.TurnEvent, event: events.Event) -> None:
    match event:
        case events.TextDelta(step, offset, text):
            wire.text_delta.CopyFrom(pb.TextDelta(step=step, offset=offset, text=text))
        case events.ReasoningDelta(step, offset, text):
            wire.reasoning_delta.CopyFrom(pb.ReasoningDelta(step=step, offset=offset, text=text))
        case events.TextSnapshot(step, text, reasoning):
            snapshot = pb.TextSnapshot(step=step, text=text, reasoning=reasoning)
            wire.text_snapshot.CopyFrom(snapshot)
        case events.ToolProgress(call_id, text):
            wire.tool_progress.CopyFrom(pb.ToolProgress(call_id=call_id, text=text))
        case events.Notice(text):
            wire.notice.CopyFrom(pb.Notice(text=text))
        case _:
            raise TypeError(f"{type(event).__name__} is durable and has no sequence")


def _durable(wire: pb.TurnEvent, event: events.Event) -> None:
    match event:
        case events.TurnStarted(session_id, model):
            wire.turn_started.CopyFrom(pb.TurnStarted(session_id=session_id, model=model))
        case events.TextFinished(step, text, count):
            finished = pb.TextFinished(step=step, text=text, tool_call_count=count)
            wire.text_finished.CopyFrom(finished)
        case events.UsageReported(step, used):
            wire.usage_reported.CopyFrom(pb.UsageReported(step=step, usage=usage(used)))
        case events.ToolStarted(call_id, name, arguments_json, step):
            wire.tool_started.CopyFrom(
                pb.ToolStarted(call_id=call_id, name=name, arguments_json=arguments_json, step=step)
            )
        case events.Noted(text):
            wire.notice.CopyFrom(pb.Notice(text=text, lasts=True))
        case events.Compressed(before, after):
            compressed = pb.Compressed(before_token_count=before, after_token_count=after)
            wire.compressed.CopyFrom(compressed)
        case events.ToolFinished():
            wire.tool_finished.CopyFrom(_tool_finished(event))
        case (
            events.ApprovalRequested()
            | events.ApprovalResolved()
            | events.ClarificationRequested()
            | events.ClarificationAnswered()
        ):
            _waiting(wire, event)
        case events.TurnFinished():
            wire.turn_finished.CopyFrom(_turn_finished(event))
        case _:
            raise TypeError(f"{type(event).__name__} is not durable")


def _waiting(wire: pb.TurnEvent, event: events.WaitsForPerson) -> None:
    match event:
        case events.ApprovalRequested():
            wire.approval_requested.CopyFrom(_approval_requested(event))
        case events.ApprovalResolved(approval_id, call_id, decision, decided_by):
            wire.approval_resolved.CopyFrom(
                pb.ApprovalResolved(
                    approval_id=approval_id,
                    call_id=call_id,
                    decision=wire_decision(decision),
                    decided_by=decided_by,
                )
            )
        case events.ClarificationRequested():
            wire.clarification_requested.CopyFrom(_clarification_requested(event))
        case events.ClarificationAnswered():
            wire.clarification_answered.CopyFrom(
                pb.ClarificationAnswered(
                    clarification_id=event.clarification_id,
                    call_id=event.call_id,
                    answer=event.answer,
                    answered_by=event.answered_by,
                    expired=event.expired,
                )
            )


def _tool_finished(event: events.ToolFinished) -> pb.ToolFinished:
    duration = Duration()
    duration.FromTimedelta(timedelta(milliseconds=event.duration_ms))
    return pb.ToolFinished(
        call_id=event.call_id,
        name=event.name,
        is_error=event.is_error,
        exit_code=event.exit_code,
        backend=event.backend,
        duration=duration,
        preview=event.preview,
        isolation=event.isolation,
        sandbox_id=event.sandbox_id,
    )


def _approval_requested(event: events.ApprovalRequested) -> pb.ApprovalRequested:
    expires_at = datetime.fromtimestamp(event.expires_at_ms / 1000, UTC)
    return pb.ApprovalRequested(
        approval_id=event.approval_id,
        call_id=event.call_id,
        tool=event.tool,
        subject=event.subject,
        expire_time=timestamp(expires_at),
        can_be_always=bool(event.binding),
    )


def _clarification_requested(
    event: events.ClarificationRequested,
) -> pb.ClarificationRequested:
    expires_at = datetime.fromtimestamp(event.expires_at_ms / 1000, UTC)
    return pb.ClarificationRequested(
        clarification_id=event.clarification_id,
        call_id=event.call_id,
        question=event.question,
        choices=event.choices,
        expire_time=timestamp(expires_at),
    )


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
