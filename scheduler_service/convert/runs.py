"""Runs on the wire."""

from hermes.scheduler.v1 import run_pb2
from scheduler_service.convert.common import timestamp_to_wire
from scheduler_service.jobs import Run, RunState, session_id_of, turn_id_of

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
