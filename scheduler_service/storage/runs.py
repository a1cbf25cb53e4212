"""Statements over runs. Each function takes the connection of a transaction that has begun.

What changes a run is fenced by its lease, so that an owner that was taken over writes nothing.
"""

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
"""So long after a run was cancelled its turn may still start: it takes longer than the call."""
STOPPED_AT_ONCE = 500

ANY_START = sa.case((run.c.epoch > 0, db_now(START_S)), else_=sa.null())
"""Until when the turn of a run that is cancelled may start; never where nobody has held it."""

_UNWANTED = (
    sa.select(
        job.c.profile, run.c.id, run.c.attempt, (run.c.stop_until < db_now()).label("is_over")
    )
    .join(job, run.c.job_id == job.c.id)
    .where(run.c.stop_until.is_not(None))
    .order_by(run.c.stop_until)
    .limit(STOPPED_AT_ONCE)
)
_STOPPED = (
    sa.update(run)
    .where(run.c.id.in_(sa.bindparam("run_ids", expanding=True)))
    .values(stop_until=None)
)

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
    """Raise Fenced where the run is not the claim's any more; nothing is written."""
    lease = claim.lease
    held = {"run_id": lease.id, "holder": lease.owner, "in_epoch": lease.epoch}
    if connection.execute(_HELD, held).scalar() is None:
        raise Fenced(f"run {lease.id} has another owner, or was cancelled")


def is_cancelled(connection: sa.Connection, claim: Claim) -> bool:
    """Whether the run was ended from outside, so that nobody goes on with its turn."""
    found = find_run(connection, claim.run_id)
    # One that is open is never forgotten.
    return found is None or found.state is RunState.CANCELLED


def save(connection: sa.Connection, leases: LeaseTable, claim: Claim) -> None:
    """Store how far the claim's run has come; raises Fenced."""
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
    """Store a claim whose attempt is to be made, as the last one failed.

    False where the job was deleted meanwhile, or paused and nobody has asked for the run. Raises
    Fenced.
    """
    # Whoever deletes or pauses the job waits, and then finds a run whose turn is still to be made.
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
        """What it ends as."""
        failed = self.error or self.delivery_error
        return RunState.FAILED if failed else RunState.SUCCEEDED


def close_run(
    connection: sa.Connection, leases: LeaseTable, claim: Claim, ending: Ending, now: datetime
) -> None:
    """End the run, note how at its job, and forget the job's oldest ones; raises Fenced."""
    # First the job and then its runs, as whoever claims does.
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
    """Whether the turn of the job's run before this one failed; one that was replaced is passed
    over."""
    values = {"of_job": claim.job.id, "before": claim.scheduled_for}
    return bool(connection.execute(_ERROR_BEFORE, values).scalar())


def contexts_of(connection: sa.Connection, claim: Claim) -> list[Context]:
    """Return what the jobs that a claim's job names came to last, in its order."""
    job_ids = claim.job.spec.options.context_job_ids
    of_profile = sa.select(job.c.id, job.c.spec).where(
        job.c.profile == claim.job.profile, job.c.id.in_(job_ids)
    )
    named = {row.id: spec_of_text(row.spec) for row in connection.execute(of_profile)}
    newest = (
        sa.select(run.c.output)
        .where(
            run.c.job_id == sa.bindparam("of_job"),
            run.c.state == RunState.SUCCEEDED,
            ~run.c.is_silent,
        )
        .order_by(run.c.scheduled_for.desc())
        .limit(1)
    )
    return [
        Context(
            named[job_id].name,
            connection.execute(newest, {"of_job": job_id}).scalar() or "",
            denied=named[job_id].denied_commands,
        )
        for job_id in job_ids
        if job_id in named
    ]


def request_run(connection: sa.Connection, of_job: Job, run_id: str, now: datetime) -> Run:
    """Store a run that somebody asks for, for anybody to take up, and return what is stored.

    The job has to be locked, and read since: whoever claims for it, deletes it or asks for another
    run waits until this has ended. Raises FailedPrecondition where a run is under way that it must
    not overlap.
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
    """The row of a run that is for anybody to take up."""
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
    """Store a run. Its job has to be locked."""
    connection.execute(insert_ignore(run).values(row))
    settle_waiting(connection, [row["job_id"]])
    stored = find_run(connection, row["id"])
    assert stored is not None
    return stored


def cancel_open(connection: sa.Connection, job_ids: Collection[str], now: datetime) -> None:
    """End the open runs of some jobs, whose next runs take their place; their owners are fenced.

    Their turns are to be stopped, also where the runs that take their place never begin.
    """
    if job_ids:
        of_jobs = sa.and_(run.c.job_id.in_(job_ids), open_run)
        _cancel(connection, of_jobs, "the job's next run took its place", now)


def cancel_unbegun(
    connection: sa.Connection, job_id: str, now: datetime, *, is_paused: bool = False
) -> None:
    """End the runs of a job that was deleted whose turns are still to be made, or of one that was
    paused, without those that somebody asked for; those that have started unknown to anybody are
    to be stopped."""
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
    """Return a run of any job; the caller decides who may see it."""
    row = connection.execute(_BY_ID, {"run_id": run_id}).one_or_none()
    return None if row is None else _run_of(row)


def list_runs(connection: sa.Connection, job_id: str, limit: int) -> list[Run]:
    """Return a job's runs, the latest first."""
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


# ---- turns that nobody wants any more: those of cancelled runs that may have started all the same.
# A run is cancelled in the transaction that says so, and its turn is stopped after that, by whoever
# comes to it, as often as it takes: whoever has cancelled it may die before.


class Unwanted(Struct, frozen=True):
    """A turn that is to be stopped."""

    run_id: str
    turn_id: str
    profile: str
    is_over: bool
    """It cannot start any more; where there is none by now, there will be none."""


def unwanted(connection: sa.Connection) -> Sequence[Unwanted]:
    """Return turns that are to be stopped, those first that have been for longest."""
    rows = connection.execute(_UNWANTED)
    return [
        Unwanted(row.id, turn_id_of(row.id, row.attempt), row.profile, bool(row.is_over))
        for row in rows
    ]


def unwanted_of(connection: sa.Connection, job_id: str) -> Sequence[str]:
    """Return the ids of a job's turns that are to be stopped."""
    query = sa.select(run.c.id, run.c.attempt).where(
        run.c.job_id == job_id, run.c.stop_until.is_not(None)
    )
    return [turn_id_of(row.id, row.attempt) for row in connection.execute(query)]


def stopped(connection: sa.Connection, run_ids: Collection[str]) -> None:
    """Note that the turns of runs need not be stopped any more."""
    connection.execute(_STOPPED, {"run_ids": run_ids})
