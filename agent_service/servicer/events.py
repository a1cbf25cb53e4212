"""Turn events on the wire."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from agent_service.records import events
from agent_service.records.events import Outcome
from agent_service.servicer.approvals import decision_number
from agent_service.servicer.fields import timestamp, usage
from hermes.agent.v1 import turn_event_pb2 as pb

MESSAGE_BYTES = 512 * 1024
"""The approximate size of messages that carry several events."""


def turn_event(recorded: events.Recorded) -> pb.TurnEvent:
    """Return an event as watchers get it."""
    name, content = _content(recorded.event)
    fields: dict[str, Any] = {name: content}
    return pb.TurnEvent(
        sequence=recorded.sequence,
        time=timestamp(recorded.time),
        attempt=recorded.attempt,
        ignorable=not recorded.sequence,
        **fields,
    )


def in_messages(batch: Iterable[pb.TurnEvent]) -> Iterator[list[pb.TurnEvent]]:
    """Split a batch into messages far below gRPC's size limit."""
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


def _content(event: events.Event) -> tuple[str, pb.TurnFinished | dict[str, Any]]:
    """Return the name and content of the event's message: most have the same fields as ours."""
    fields: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    match event:
        case events.TurnFinished():
            return "turn_finished", _turn_finished(event)
        case events.Noted():
            return "notice", fields | {"lasts": True}
        case events.UsageReported():
            fields["usage"] = usage(event.usage)
        case events.ToolFinished():
            fields["duration"] = timedelta(milliseconds=fields.pop("duration_ms"))
        case events.ApprovalRequested():
            return _approval_requested(event)
        case events.ApprovalResolved():
            return _approval_resolved(event)
        case _:
            pass
    return _name(type(event)), fields


@cache
def _name(kind: type[events.Event]) -> str:
    return re.sub(r"(?<=.)(?=[A-Z])", "_", kind.__name__).lower()


def _approval_requested(event: events.ApprovalRequested) -> tuple[str, dict[str, Any]]:
    wire = {"call_id": event.call_id, "expire_time": timestamp(event.expires_at)}
    if event.tool == events.CLARIFY:
        asked = {"question": event.subject, "choices": event.choices}
        return "clarification_requested", wire | asked | {"clarification_id": event.approval_id}
    asked = {"tool": event.tool, "subject": event.subject, "can_be_always": bool(event.binding)}
    return "approval_requested", wire | asked | {"approval_id": event.approval_id}


def _approval_resolved(event: events.ApprovalResolved) -> tuple[str, dict[str, Any]]:
    wire = {"call_id": event.call_id}
    if event.tool == events.CLARIFY:
        return "clarification_answered", wire | {
            "clarification_id": event.approval_id,
            "answer": event.answer,
            "answered_by": event.decided_by,
            "expired": event.decision is events.Decision.EXPIRED,
        }
    return "approval_resolved", wire | {
        "approval_id": event.approval_id,
        "decision": decision_number(event.decision),
        "decided_by": event.decided_by,
    }


def _turn_finished(event: events.TurnFinished) -> pb.TurnFinished:
    text, message = event.text, event.message
    failure: dict[str, Any] = {
        "message": message,
        "retryable": event.retryable,
        "cause": event.cause,
        "reason": f"ERROR_REASON_{event.reason}",
    }
    if event.retry_after_s is not None:
        failure["retry_after"] = timedelta(seconds=event.retry_after_s)
    stopped = {"partial_answer": text, "survivor_count": event.survivor_count, "message": message}
    ends: Mapping[Outcome, Mapping[str, Any]] = {
        Outcome.COMPLETED: {"answer": text},
        Outcome.FAILED: {"failure": failure},
        Outcome.CANCELLED: stopped,
        Outcome.LIMIT_REACHED: {"message": message, "partial_answer": text},
        Outcome.NEEDS_REVIEW: {"message": message},
    }
    # An outcome has the name of the field with its details.
    end: dict[str, Any] = {event.outcome.value: ends[event.outcome]}
    return pb.TurnFinished(usage=usage(event.usage), **end)
