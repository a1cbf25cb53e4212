"""Statements over runs, fenced by their leases; each runs in an open transaction."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from scheduler_service.jobs import (
    Attempt,
    Claim,
    Context,
    Job,
    JobState,
    LastRun,
    Run,
    RunState,
    turn_id_of,
)
from scheduler_service.options import Overlap
from scheduler_service.storage.jobs import (
    WAITS,
    lock_jobs,
    locked_job,
    settle_waiting,
    spec_of_text,
    to_text,
)
from scheduler_service.storage.schema import job, open_run, run
from services.database import UtcTime, db_now, insert_ignore, is_one_of
from services.database.leases import Fenced, LeaseTable
from services.errors import FailedPrecondition

KEPT_RUNS_PER_JOB = 50
START_S = 15.0
"""How long the turn of a cancelled run may still start: longer than the call takes."""
STOPPED_AT_ONCE = 500

ANY_START = sa.case((run.c.epoch > 0, db_now(START_S)), else_=sa.null())
"""Until when the turn of a cancelled run may start; NULL if nobody ever held the run."""

_OF_JOB = run.c.job_id == sa.bindparam("of_job")
_END_OF_JOB = (
    sa.update(job)
    .where(job.c.id == sa.bindparam("of_job"))
    .values(last_run=sa.bindparam("ended", type_=sa.Text()), waits=WAITS)
)
_OLDEST_KEPT = (
    sa.select(run.c.scheduled_for)
    .where(_OF_JOB)
    .order_by(run.c.scheduled_for.desc())
    .offset(KEPT_RUNS_PER_JOB - 1)
    .limit(1)
    .scalar_subquery()
)
_FORGET_OLD = sa.delete(run).where(
    _OF_JOB, ~open_run, run.c.stop_until.is_(None), run.c.scheduled_for < _OLDEST_KEPT
)
_ERROR_BEFORE = (
    sa.select(run.c.error)
    .where(
        _OF_JOB,
        run.c.scheduled_for < sa.bindparam("before", type_=UtcTime()),
        is_one_of(run.c.state, (RunState.SUCCEEDED, RunState.FAILED)),
    )
    .order_by(run.c.scheduled_for.desc())
    .limit(1)
)
_BY_ID = sa.select(run).where(run.c.id == sa.bindparam("run_id"))


_HELD = sa.select(run.c.id).where(
    run.c.id == sa.bindparam("run_id"),
    run.c.owner == sa.bindparam("holder"),
    run.c.epoch == sa.bindparam("in_epoch", type_=sa.BigInteger()),
)


def check_held(connection: sa.Connection, claim: Claim) -> None:
    """Raise Fenced if the claim no longer holds the run; nothing is written."""
    lease = claim.lease
    held = {"run_id": lease.id, "holder": lease.owner, "in_epoch": lease.epoch}
    if connection.execute(_HELD, held).scalar() is None:
        raise Fenced(f"run {lease.id} has another owner, or was cancelled")


def is_cancelled(connection: sa.Connection, claim: Claim) -> bool:
    """Return whether the run was ended from outside."""
    found = find_run(connection, claim.run_id)
    # Open runs are never deleted.
    return found is None or found.state is RunState.CANCELLED


def save(connection: sa.Connection, leases: LeaseTable, claim: Claim) -> None:
    """Store the progress of the claim's run; raises Fenced."""
    attempt = claim.attempt
    leases.fence(
        connection,
        claim.lease,
        state=claim.state,
        output=claim.output,
        error=claim.error,
        attempt=attempt.number,
        not_before=attempt.not_before,
        started_at=attempt.started_at,
        traceparent=claim.traceparent or None,
    )


def retry_run(connection: sa.Connection, leases: LeaseTable, claim: Claim) -> bool:
    """Store a retry; False if the job was deleted, or paused and the run not requested; raises
    Fenced."""
    # A concurrent delete or pause waits here, and then finds a run whose turn is still to start.
    stored = locked_job(connection, claim.job.id)
    if stored is None or stored.deleted:
        return False
    found = find_run(connection, claim.run_id)
    is_requested = found is not None and found.is_requested
    if stored.job.state is JobState.PAUSED and not is_requested:
        return False
    save(connection, leases, claim)
    return True


class Ending(Struct, frozen=True):
    """How a run ends."""

    error: str
    delivery_error: str
    is_silent: bool

    @property
    def state(self) -> RunState:
        failed = self.error or self.delivery_error
        return RunState.FAILED if failed else RunState.SUCCEEDED


def close_run(
    connection: sa.Connection, leases: LeaseTable, claim: Claim, ending: Ending, now: datetime
) -> None:
    """End the run, record it in its job, and delete the job's oldest runs; raises Fenced."""
    # Lock the job before its runs, like claims do.
    lock_jobs(connection, [claim.job.id])
    leases.release(
        connection,
        claim.lease,
        state=ending.state,
        error=ending.error,
        delivery_error=ending.delivery_error or None,
        is_silent=ending.is_silent,
        finished_at=now,
    )
    last = LastRun(claim.scheduled_for, ending.state, ending.error, ending.delivery_error)
    connection.execute(_END_OF_JOB, {"of_job": claim.job.id, "ended": to_text(last)})
    connection.execute(_FORGET_OLD, {"of_job": claim.job.id})


def failed_before(connection: sa.Connection, claim: Claim) -> bool:
    """Return whether the previous run of the job failed; replaced runs are skipped."""
    values = {"of_job": claim.job.id, "before": claim.scheduled_for}
    return bool(connection.execute(_ERROR_BEFORE, values).scalar())


def contexts_of(connection: sa.Connection, claim: Claim) -> list[Context]:
    """Return the last outputs of the jobs that a claim's job names, in its order."""
    job_ids = claim.job.spec.options.context_job_ids
    of_profile = sa.select(job.c.id, job.c.spec).where(
        job.c.profile == claim.job.profile, job.c.id.in_(job_ids)
    )
    named = {row.id: spec_of_text(row.spec) for row in connection.execute(of_profile)}
    told = sa.select(run.c.output).where(run.c.state == RunState.SUCCEEDED, ~run.c.is_silent)
    newest = told.order_by(run.c.scheduled_for.desc()).limit(1)
    return [
        Context(
            named[job_id].name,
            connection.execute(newest.where(run.c.job_id == job_id)).scalar() or "",
            denied=named[job_id].denied_commands,
        )
        for job_id in job_ids
        if job_id in named
    ]


def request_run(connection: sa.Connection, of_job: Job, run_id: str, now: datetime) -> Run:
    """Store a requested run to be taken up; the job must be locked and read after that.

    Raises FailedPrecondition while a run is open that this one must not overlap.
    """
    if (stored := find_run(connection, run_id)) is not None:
        return stored
    is_open = sa.select(run.c.id).where(run.c.job_id == of_job.id, open_run).limit(1)
    under_way = connection.execute(is_open).scalar()
    if under_way is not None and of_job.spec.options.overlap_policy is Overlap.FORBID:
        raise FailedPrecondition(
            f"run {under_way} of job {of_job.id} is under way; wait until it has ended, or let the "
            "job's runs overlap"
        )
    if of_job.spec.options.overlap_policy is Overlap.REPLACE:
        cancel_open(connection, [of_job.id], now)
    return insert_run(connection, row_of(run_id, of_job.id, now, now) | {"is_requested": True})


def row_of(run_id: str, job_id: str, scheduled_for: datetime, now: datetime) -> dict[str, Any]:
    """Return the row of a run that anybody may take up."""
    return {
        "id": run_id,
        "job_id": job_id,
        "scheduled_for": scheduled_for,
        "state": RunState.CLAIMED,
        "epoch": 0,
        "version": 0,
        "claimed_at": now,
        "output": "",
        "error": "",
    }


def insert_run(connection: sa.Connection, row: dict[str, Any]) -> Run:
    """Store a run; its job must be locked."""
    connection.execute(insert_ignore(run).values(row))
    settle_waiting(connection, [row["job_id"]])
    stored = find_run(connection, row["id"])
    assert stored is not None
    return stored


def cancel_open(connection: sa.Connection, job_ids: Collection[str], now: datetime) -> None:
    """Cancel and fence the open runs of jobs; their turns are stopped even if no next run
    begins."""
    if job_ids:
        of_jobs = sa.and_(run.c.job_id.in_(job_ids), open_run)
        _cancel(connection, of_jobs, "the job's next run took its place", now)


def cancel_unbegun(
    connection: sa.Connection, job_id: str, now: datetime, *, is_paused: bool = False
) -> None:
    """Cancel runs whose turns have not started, of a deleted job, or of a paused one except
    requested runs; turns that started unnoticed are stopped."""
    unbegun = sa.and_(run.c.job_id == job_id, open_run, run.c.state == RunState.CLAIMED)
    if is_paused:
        unbegun = sa.and_(unbegun, ~run.c.is_requested)
    why = f"the job was {'paused' if is_paused else 'deleted'}"
    _cancel(connection, unbegun, why, now)
    settle_waiting(connection, [job_id])


def _cancel(
    connection: sa.Connection, which: sa.ColumnElement[bool], why: str, now: datetime
) -> None:
    cancel = sa.update(run).where(which)
    last = sa.literal(f"{why}; its last attempt had failed: ") + run.c.error
    connection.execute(
        cancel.values(
            state=RunState.CANCELLED,
            owner=None,
            lease_until=None,
            epoch=run.c.epoch + 1,
            error=sa.case((run.c.error == "", why), else_=last),
            finished_at=now,
            stop_until=ANY_START,
        )
    )


def find_run(connection: sa.Connection, run_id: str) -> Run | None:
    """Return a run of any job; the caller checks access."""
    row = connection.execute(_BY_ID, {"run_id": run_id}).one_or_none()
    return None if row is None else _run_of(row)


def list_runs(connection: sa.Connection, job_id: str, limit: int) -> list[Run]:
    """Return a job's runs, newest first."""
    query = (
        sa.select(run)
        .where(run.c.job_id == job_id)
        .order_by(run.c.scheduled_for.desc())
        .limit(limit)
    )
    return list(map(_run_of, connection.execute(query)))


def _run_of(row: sa.Row[Any]) -> Run:
    return Run(
        id=row.id,
        job_id=row.job_id,
        scheduled_for=row.scheduled_for,
        state=RunState(row.state),
        claimed_at=row.claimed_at,
        finished_at=row.finished_at,
        output=row.output,
        error=row.error,
        attempt=Attempt(row.attempt, row.not_before, row.started_at),
        is_requested=row.is_requested,
        is_silent=row.is_silent,
        delivery_error=row.delivery_error or "",
        dry_run=row.dry_run,
    )


# ---- unwanted turns: those of cancelled runs that may have started all the same. They are recorded
# in the cancelling transaction and stopped later by any replica, as the canceller may die.


class UnwantedTurn(Struct, frozen=True):
    """A turn to be stopped."""

    run_id: str
    turn_id: str
    profile: str
    is_over: bool
    """It cannot start any more: if it is missing now, it always will be."""


def unwanted(connection: sa.Connection) -> Sequence[UnwantedTurn]:
    """Return the turns to be stopped, oldest first."""
    is_over = (run.c.stop_until < db_now()).label("is_over")
    query = sa.select(job.c.profile, run.c.id, run.c.attempt, is_over).join(job)
    oldest = query.where(run.c.stop_until.is_not(None)).order_by(run.c.stop_until)
    return [
        UnwantedTurn(row.id, turn_id_of(row.id, row.attempt), row.profile, bool(row.is_over))
        for row in connection.execute(oldest.limit(STOPPED_AT_ONCE))
    ]


def unwanted_of(connection: sa.Connection, job_id: str) -> Sequence[str]:
    """Return the ids of a job's turns to be stopped."""
    query = sa.select(run.c.id, run.c.attempt).where(
        run.c.job_id == job_id, run.c.stop_until.is_not(None)
    )
    return [turn_id_of(row.id, row.attempt) for row in connection.execute(query)]


def stopped(connection: sa.Connection, run_ids: Collection[str]) -> None:
    """Record that the turns of runs are stopped."""
    connection.execute(sa.update(run).where(run.c.id.in_(run_ids)).values(stop_until=None))
