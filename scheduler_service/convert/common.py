"""Messages of runs, and what all messages share."""

from typing import Any

from hermes.common.v1 import origin_pb2
from hermes.scheduler.v1 import run_pb2, schedule_pb2
from scheduler_service.jobs import Origin, Run, RunState, session_id_of, turn_id_of
from scheduler_service.schedule.schedule import Schedule
from services.home import DEFAULT_PROFILE
from services.messages import message_of

MAX_RUN_ID_CHARS = 80
"""A run's id is its turn's too, whose later attempts and deliveries have something behind it."""


def profile_of(name: str) -> str:
    """Return the profile that an empty field means."""
    return name or DEFAULT_PROFILE


def kind_to_wire(schedule: Schedule) -> "schedule_pb2.ScheduleKind.ValueType":
    """Return how a schedule repeats."""
    return schedule_pb2.ScheduleKind.Value(f"SCHEDULE_KIND_{schedule.kind.upper()}")


def origin_to_wire(
    origin: Origin, trust: origin_pb2.Trust.ValueType = origin_pb2.TRUST_UNSPECIFIED
) -> origin_pb2.Origin:
    """Return the message of an origin."""
    return message_of(origin, origin_pb2.Origin, trust=trust)


def state_to_wire(state: RunState) -> "run_pb2.RunState.ValueType":
    """Return where a run is in its life."""
    return run_pb2.RunState.Value(f"RUN_STATE_{state}")


def run_to_wire(run: Run) -> run_pb2.Run:
    """Return the message of a run."""
    attempt = run.attempt
    values: dict[str, Any] = {
        "run_id": run.id,
        "job_id": run.job_id,
        "scheduled_for": run.scheduled_for,
        "state": state_to_wire(run.state),
        "claim_time": run.claimed_at,
        "finish_time": run.finished_at,
        "output": run.output,
        "error": run.error,
        "attempt": attempt.number,
        "not_before_time": attempt.not_before,
        "start_time": attempt.started_at,
        "is_requested": run.is_requested,
        "is_silent": run.is_silent,
        "delivery_error": run.delivery_error,
    }
    if attempt.started_at is not None:
        values["turn_id"] = turn_id_of(run.id, attempt.number)
        values["session_id"] = session_id_of(run.job_id, run.id, run.scheduled_for, attempt)
    return run_pb2.Run(**values)
