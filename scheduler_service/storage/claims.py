"""Who runs what: statements with which schedulers share jobs and runs out among themselves.

A run is claimed by inserting its row, whose due time is unique for the job. Its owner holds it by
a lease in the database's time. Each function takes the connection of a transaction that has begun.
"""

import contextlib
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from scheduler_service.attempts import first_start
from scheduler_service.jobs import Attempt, Claim, Job, RunState
from scheduler_service.misfire import Firing
from scheduler_service.options import Missed, Overlap
from scheduler_service.storage import runs
from scheduler_service.storage.jobs import job_of
from scheduler_service.storage.schema import job, open_run, run
from services.database import db_now, insert_ignore
from services.ids import new_id
from services.leases import Fenced, Lease, LeaseTable, Owner

RUN_LEASE_S = 6.0
"""A run is taken over when its owner has not renewed its lease for so long."""

_LEASE_END = db_now(sa.bindparam("lease_s", type_=sa.Double()))
# A job whose run is still open waits, unless its runs may overlap.
_WAITS = sa.and_(~job.c.may_overlap, sa.exists().where(run.c.job_id == job.c.id, open_run))
_DUE = (
    sa.select(job)
    .where(job.c.next_run_at <= sa.bindparam("now"), ~_WAITS)
    .order_by(job.c.next_run_at)
    .limit(sa.bindparam("limit"))
)
# What another planner has locked it also claims.
_STILL_DUE = (
    sa.select(job.c.id, job.c.next_run_at)
    .where(job.c.id.in_(sa.bindparam("job_ids", expanding=True)))
    .with_for_update(skip_locked=True)
)
_NEXT_DUE = (
    sa.select(job.c.next_run_at)
    .where(job.c.next_run_at.is_not(None), ~_WAITS)
    .order_by(job.c.next_run_at)
    .limit(1)
)
_CLAIM = insert_ignore(run).values(lease_until=_LEASE_END).returning(run.c.id, run.c.lease_until)
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
    )
    .join(run, run.c.job_id == job.c.id)
    .where(run.c.id.in_(sa.bindparam("run_ids", expanding=True)))
)
# Leases of others that will end unless they are renewed, and whatever has no lease any more.
_NEXT_ABANDONED = sa.select(
    sa.func.min(sa.func.coalesce(run.c.lease_until, db_now())), db_now()
).where(
    open_run,
    sa.or_(
        run.c.owner.is_(None),
        run.c.owner != sa.bindparam("owner"),
        run.c.lease_until < db_now(),
    ),
)


def run_leases(ttl_s: float = RUN_LEASE_S) -> LeaseTable:
    """Return the leases of runs."""
    return LeaseTable(run, claimable=open_run, ttl_s=ttl_s)


class Holder(Struct, frozen=True):
    """A scheduler, and the leases by which it holds runs."""

    owner: Owner
    leases: LeaseTable


class Outlook(Struct, frozen=True):
    """What will have to be done next."""

    next_due: datetime | None
    """When the next job is due, of those that need not wait for a run to end."""
    abandoned_in_s: float | None
    """In how many seconds the first run has no owner; 0 or less if there is such a run."""


class Claimed(Struct, frozen=True):
    """What came of claiming jobs that were due."""

    runs: tuple[Claim, ...]
    job_count: int
    """Jobs that were moved on to their next due times."""
    missed: tuple[Missed, ...]
    """The policies of jobs of which a due time gets no run of its own."""


def due_jobs(connection: sa.Connection, now: datetime, limit: int) -> list[Job]:
    """Return jobs that are due, those first that have been for longest."""
    rows = connection.execute(_DUE, {"now": now, "limit": limit})
    return [job_of(row) for row in rows]


def claim(
    connection: sa.Connection,
    holder: Holder,
    firings: Sequence[tuple[Job, Firing]],
    now: datetime,
) -> Claimed:
    """Insert the runs of jobs that are still due, and move the jobs on to their next due times."""
    job_ids = [of_job.id for of_job, _ in firings]
    rows = connection.execute(_STILL_DUE, {"job_ids": job_ids})
    due: dict[str, datetime | None] = {row.id: row.next_run_at for row in rows}
    still = [each for each in firings if due.get(each[0].id) == each[0].next_run_at]
    if not still:
        return Claimed((), 0, ())
    steps = [
        {
            "job_id": job.id,
            "following": firing.next_run_at,
            "more": int(firing.run_for is not None),
        }
        for job, firing in still
    ]
    connection.execute(_ADVANCE, steps)
    new = [(job, firing.run_for) for job, firing in still if firing.run_for is not None]
    replaced = [job.id for job, _ in new if job.options.overlap is Overlap.REPLACE]
    runs.cancel_open(connection, replaced, now)
    missed = tuple(job.options.missed for job, firing in still if firing.missed)
    return Claimed(_insert(connection, holder, new, now), len(still), missed)


def _insert(
    connection: sa.Connection,
    holder: Holder,
    new: Sequence[tuple[Job, datetime]],
    now: datetime,
) -> tuple[Claim, ...]:
    """Claim the due times that have no run yet."""
    owner = str(holder.owner)
    due = {new_id("run"): each for each in new}
    rows = [
        {
            "id": run_id,
            "job_id": due_job.id,
            "scheduled_for": scheduled_for,
            "state": RunState.CLAIMED,
            "owner": owner,
            "epoch": 1,
            "version": 0,
            "claimed_at": now,
            "output": "",
            "error": "",
            "lease_s": holder.leases.ttl_s,
            "not_before": first_start(due_job.id, scheduled_for, due_job.options),
        }
        for run_id, (due_job, scheduled_for) in due.items()
    ]
    if not rows:
        return ()
    claims: list[Claim] = []
    for row in connection.execute(_CLAIM, rows):
        due_job, scheduled_for = due[row.id]
        lease = Lease(row.id, owner, 1, row.lease_until)
        attempt = Attempt(not_before=first_start(due_job.id, scheduled_for, due_job.options))
        claim = Claim(due_job, lease, scheduled_for, RunState.CLAIMED, attempt=attempt)
        claims.append(replace(claim, claimed_at=now))
    return tuple(claims)


def take_over(connection: sa.Connection, holder: Holder, limit: int) -> tuple[Claim, ...]:
    """Claim open runs that nobody holds: their owner has let go of them, or its lease has ended."""
    leases = {
        lease.id: lease for lease in holder.leases.claim_free(connection, holder.owner, limit)
    }
    if not leases:
        return ()
    return tuple(
        Claim(
            job=job_of(row),
            lease=leases[row.run_id],
            scheduled_for=row.scheduled_for,
            state=RunState(row.state),
            output=row.output,
            error=row.error,
            attempt=Attempt(row.attempt, row.not_before, row.started_at),
            claimed_at=row.claimed_at,
        )
        for row in connection.execute(_OPEN_RUNS, {"run_ids": list(leases)})
    )


def let_go(connection: sa.Connection, holder: Holder, held: Sequence[Lease]) -> None:
    """Leave runs to whoever comes first; those that have been taken over are left alone."""
    for lease in held:
        with contextlib.suppress(Fenced):
            holder.leases.release(connection, lease)


def look(connection: sa.Connection, holder: Holder) -> Outlook:
    """Return what there is to do next, for this holder."""
    due = connection.execute(_NEXT_DUE).scalar()
    owner = {"owner": str(holder.owner)}
    abandoned_at, now = connection.execute(_NEXT_ABANDONED, owner).one()
    left_s = None if abandoned_at is None else (abandoned_at - now).total_seconds()
    return Outlook(due, left_s)
