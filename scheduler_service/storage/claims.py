"""Statements by which schedulers divide jobs and runs among themselves.

A due time is claimed by inserting its run, which is unique. Schedulers with room take up unheld
runs, oldest first, and hold all theirs by one lease in database time, whose cost does not grow with
their number. Each function takes the connection of an open transaction.
"""

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from scheduler_service.jobs import Attempt, Claim, Job, RunState
from scheduler_service.options import MissedRunPolicy, Overlap, first_start
from scheduler_service.schedule.misfires import DueAction
from scheduler_service.storage import runs
from scheduler_service.storage.jobs import job_of, settle_waiting
from scheduler_service.storage.schema import job, not_waiting, open_run, run
from services.database import db_now, insert_ignore
from services.database.leases import Fenced, Lease, LeaseTable, Owner
from services.ids import new_id

CHANNEL = "jobs"
"""Tells the planners of all replicas that jobs or runs changed."""

RUN_LEASE_S = 6.0
"""A run is taken over when its owner has not renewed its lease for so long."""

_Firing = tuple[Job, DueAction]

_NEXT_DUE = (
    sa.select(job.c.next_run_at)
    .where(job.c.next_run_at.is_not(None), not_waiting)
    .order_by(job.c.next_run_at)
    .limit(1)
)
_OFFER = insert_ignore(run).returning(run.c.scheduled_for)
_ADVANCE = (
    sa.update(job)
    .where(job.c.id == sa.bindparam("job_id"))
    .values(
        next_run_at=sa.bindparam("following"),
        run_count=job.c.run_count + sa.bindparam("more", type_=sa.BigInteger()),
    )
)
_OPEN_RUNS = (
    sa.select(
        job,
        run.c.id.label("run_id"),
        run.c.scheduled_for,
        run.c.state,
        run.c.output,
        run.c.error,
        run.c.attempt,
        run.c.not_before,
        run.c.started_at,
        run.c.claimed_at,
        run.c.traceparent,
        run.c.dry_run,
    )
    .join(run, run.c.job_id == job.c.id)
    .where(run.c.id.in_(sa.bindparam("run_ids", expanding=True)))
)
# The ORDER BY makes SQLite take the first entry of an index, however many runs are open.
_FIRST_END = sa.select(sa.func.min(run.c.lease_until)).where(
    open_run, run.c.lease_until.is_not(None)
)
_FIRST_UNHELD = sa.select(sa.func.min(run.c.scheduled_for)).where(open_run, run.c.owner.is_(None))
_OUTLOOK = sa.select(
    _FIRST_END.scalar_subquery().label("ends_at"),
    _FIRST_UNHELD.scalar_subquery().is_not(None).label("is_any_unheld"),
    db_now().label("now"),
)


def run_leases(ttl_s: float = RUN_LEASE_S) -> LeaseTable:
    """Return the leases of runs."""
    return LeaseTable(run, claimable=open_run, ttl_s=ttl_s)


class Holder(Struct, frozen=True):
    """A scheduler and its leases."""

    owner: Owner
    leases: LeaseTable


class NextWork(Struct, frozen=True):
    """What has to be done next."""

    next_due: datetime | None
    """The next due time of jobs that need not wait for a run."""
    abandoned_in_s: float | None
    """Seconds until the first lease ends; 0 or less if one has."""
    is_any_unheld: bool
    """Whether there are runs that nobody holds."""


class ClaimedJobs(Struct, frozen=True):
    """The result of claiming due jobs."""

    runs: tuple[Claim, ...]
    """The runs taken up at once."""
    due: tuple[datetime, ...]
    """The due times that got a run."""
    job_count: int
    missed: tuple[MissedRunPolicy, ...]
    """The policies of jobs with due times that get no run of their own."""


def due_jobs(connection: sa.Connection, now: datetime, limit: int) -> list[Job]:
    """Return due jobs, longest due first."""
    due = sa.select(job).where(job.c.next_run_at <= now, not_waiting)
    return list(map(job_of, connection.execute(due.order_by(job.c.next_run_at).limit(limit))))


def claim(
    connection: sa.Connection, holder: Holder, firings: Sequence[_Firing], now: datetime, room: int
) -> ClaimedJobs:
    """Insert the runs of jobs that are still due, and move the jobs on to their next due times.

    Takes up as many unheld runs as there is room for.
    """
    # Rows that another planner has locked are being claimed by it; a requested run may be open now.
    these = sa.select(job.c.id, job.c.next_run_at, job.c.updated_at).where(
        job.c.id.in_([of_job.id for of_job, _ in firings]), not_waiting
    )
    rows = connection.execute(these.with_for_update(skip_locked=True))
    # A job that was changed meanwhile may not be due any more or may overlap otherwise.
    due = {(row.id, row.next_run_at, row.updated_at) for row in rows}
    still = [
        each for each in firings if (each[0].id, each[0].next_run_at, each[0].updated_at) in due
    ]
    if not still:
        return ClaimedJobs((), (), 0, ())
    steps = [
        {"job_id": job.id, "following": firing.next_run_at, "more": int(firing.run_for is not None)}
        for job, firing in still
    ]
    connection.execute(_ADVANCE, steps)
    new = [(job, firing.run_for) for job, firing in still if firing.run_for is not None]
    replaced = [job.id for job, _ in new if job.spec.options.overlap_policy is Overlap.REPLACE]
    runs.cancel_open(connection, replaced, now)
    rows = [
        runs.row_of(new_id("run"), of_job.id, due_at, now)
        | {"not_before": first_start(of_job.id, due_at, of_job.spec.options)}
        for of_job, due_at in new
    ]
    due_times = connection.execute(_OFFER, rows).scalars().all() if rows else ()
    settle_waiting(connection, [job.id for job, _ in new if not job.may_overlap])
    missed = tuple(job.spec.options.missed_run_policy for job, firing in still if firing.missed)
    taken = take_up(connection, holder, room) if room > 0 else ()
    return ClaimedJobs(taken, tuple(due_times), len(still), missed)


def free_abandoned(connection: sa.Connection, limit: int) -> int:
    """Free open runs whose owners' leases have ended; return their number."""
    ids = _lock(connection, run.c.lease_until < db_now(), run.c.lease_until, limit)
    if ids:
        free = sa.update(run).where(run.c.id.in_(ids)).values(owner=None, lease_until=None)
        connection.execute(free)
    return len(ids)


def take_up(connection: sa.Connection, holder: Holder, limit: int) -> tuple[Claim, ...]:
    """Claim open runs that nobody holds, oldest due first."""
    ids = _lock(connection, run.c.owner.is_(None), run.c.scheduled_for, limit)
    if not ids:
        return ()
    found = holder.leases.claim_these(connection, holder.owner, ids)
    leases = {lease.id: lease for lease in found}
    taken = [
        Claim(
            job=job_of(row),
            lease=leases[row.run_id],
            scheduled_for=row.scheduled_for,
            state=RunState(row.state),
            output=row.output,
            error=row.error,
            attempt=Attempt(row.attempt, row.not_before, row.started_at),
            claimed_at=row.claimed_at,
            traceparent=row.traceparent or "",
            dry_run=row.dry_run,
        )
        for row in connection.execute(_OPEN_RUNS, {"run_ids": list(leases)})
    ]
    return tuple(sorted(taken, key=lambda claim: claim.scheduled_for))


def _lock(
    connection: sa.Connection, which: sa.ColumnElement[bool], first: sa.Column[Any], limit: int
) -> Sequence[str]:
    """Lock open runs that no other scheduler has locked; return their ids."""
    query = sa.select(run.c.id).where(open_run, which).order_by(first).limit(limit)
    return connection.execute(query.with_for_update(skip_locked=True)).scalars().all()


def let_go(connection: sa.Connection, holder: Holder, held: Sequence[Lease]) -> None:
    """Release runs; those that have been taken over stay as they are."""
    for lease in held:
        with contextlib.suppress(Fenced):
            holder.leases.release(connection, lease)


def look(connection: sa.Connection) -> NextWork:
    """Return what there is to do next."""
    due = connection.execute(_NEXT_DUE).scalar()
    found = connection.execute(_OUTLOOK).one()
    # The caller's own leases count too: they are renewed long before they end.
    left_s = None if found.ends_at is None else (found.ends_at - found.now).total_seconds()
    return NextWork(due, left_s, bool(found.is_any_unheld))
