"""Messages of runs, and what all messages share."""

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.common.v1 import origin_pb2
from hermes.scheduler.v1 import run_pb2, schedule_pb2
from scheduler_service.jobs import Origin, Run, RunState, session_id_of, turn_id_of
from scheduler_service.schedule.schedule import Schedule
from services.home import DEFAULT_PROFILE

_KINDS = {
    "once": schedule_pb2.SCHEDULE_KIND_ONCE,
    "interval": schedule_pb2.SCHEDULE_KIND_INTERVAL,
    "cron": schedule_pb2.SCHEDULE_KIND_CRON,
}


def profile_of(name: str) -> str:
    """Return the profile that an empty field means."""
    return name or DEFAULT_PROFILE


def kind_to_wire(schedule: Schedule) -> "schedule_pb2.ScheduleKind.ValueType":
    """Return how a schedule repeats."""
    return _KINDS[schedule.kind]


def origin_to_wire(
    origin: Origin, trust: origin_pb2.Trust.ValueType = origin_pb2.TRUST_UNSPECIFIED
) -> origin_pb2.Origin:
    """Return the message of an origin."""
    return origin_pb2.Origin(
        platform=origin.platform,
        chat_id=origin.chat_id,
        thread_id=origin.thread_id,
        user_id=origin.user_id,
        user_name=origin.user_name,
        chat_type=origin.chat_type,
        trust=trust,
    )


def origin_of(message: origin_pb2.Origin) -> Origin:
    """Read an origin."""
    return Origin(
        platform=message.platform,
        chat_id=message.chat_id,
        thread_id=message.thread_id,
        user_id=message.user_id,
        user_name=message.user_name,
        chat_type=message.chat_type,
    )


def timestamp_to_wire(at: datetime | None) -> Timestamp | None:
    """Return the message of a time; None stays unset."""
    if at is None:
        return None
    message = Timestamp()
    message.FromDatetime(at)
    return message


_STATES = {
    RunState.CLAIMED: run_pb2.RUN_STATE_CLAIMED,
    RunState.RUNNING: run_pb2.RUN_STATE_RUNNING,
    RunState.DELIVERING: run_pb2.RUN_STATE_DELIVERING,
    RunState.SUCCEEDED: run_pb2.RUN_STATE_SUCCEEDED,
    RunState.FAILED: run_pb2.RUN_STATE_FAILED,
    RunState.CANCELLED: run_pb2.RUN_STATE_CANCELLED,
}


def state_to_wire(state: RunState) -> "run_pb2.RunState.ValueType":
    """Return where a run is in its life."""
    return _STATES[state]


def run_to_wire(run: Run) -> run_pb2.Run:
    """Return the message of a run."""
    attempt = run.attempt
    has_turn = attempt.started_at is not None
    return run_pb2.Run(
        run_id=run.id,
        job_id=run.job_id,
        scheduled_for=timestamp_to_wire(run.scheduled_for),
        state=_STATES[run.state],
        claim_time=timestamp_to_wire(run.claimed_at),
        finish_time=timestamp_to_wire(run.finished_at),
        output=run.output,
        error=run.error,
        attempt=attempt.number,
        not_before_time=timestamp_to_wire(attempt.not_before),
        start_time=timestamp_to_wire(attempt.started_at),
        is_requested=run.is_requested,
        is_silent=run.is_silent,
        delivery_error=run.delivery_error,
        turn_id=turn_id_of(run.id, attempt.number) if has_turn else "",
        session_id=session_id_of(run.job_id, run.id, run.scheduled_for, attempt)
        if has_turn
        else "",
    )
