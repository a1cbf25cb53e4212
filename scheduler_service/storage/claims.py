"""Who runs what: statements with which schedulers share jobs and runs out among themselves.

A run is claimed by inserting its row, whose due time is unique for the job. Its owner holds it by
a lease in the database's time. Each function takes the connection of a transaction that has begun.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from scheduler_service.jobs import Claim, Job, RunState
from scheduler_service.misfire import Firing
from scheduler_service.storage.jobs import job_of
from scheduler_service.storage.schema import job, open_run, run
from services.database import db_now, insert_ignore
from services.ids import new_id

_LEASE_END = db_now(sa.bindparam("lease_s", type_=sa.Double()))
# A job whose run is still open waits: its runs never overlap.
_WAITS = sa.exists().where(run.c.job_id == job.c.id, open_run)
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
_CLAIM = insert_ignore(run).values(lease_until=_LEASE_END).returning(run.c.id)
_ADVANCE = (
    sa.update(job)
    .where(job.c.id == sa.bindparam("job_id"))
    .values(next_run_at=sa.bindparam("following"))
)
_ABANDONED = (
    sa.select(
        job,
        run.c.id.label("run_id"),
        run.c.epoch,
        run.c.scheduled_for,
        run.c.state,
        run.c.output,
        run.c.error,
    )
    .join(run, run.c.job_id == job.c.id)
    .where(open_run, sa.or_(run.c.lease_until.is_(None), run.c.lease_until < db_now()))
    .order_by(run.c.scheduled_for)
    .limit(sa.bindparam("limit"))
    .with_for_update(of=run, skip_locked=True)
)
_TAKE_OVER = (
    sa.update(run)
    .where(run.c.id == sa.bindparam("run_id"))
    .values(owner=sa.bindparam("new_owner"), epoch=run.c.epoch + 1, lease_until=_LEASE_END)
)
_RENEW = (
    sa.update(run)
    .where(
        run.c.id.in_(sa.bindparam("run_ids", expanding=True)),
        run.c.owner == sa.bindparam("of_owner"),
        open_run,
    )
    .values(lease_until=_LEASE_END)
)
_RELEASE = sa.update(run).where(open_run).values(owner=None, lease_until=None)
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


@dataclass(frozen=True, slots=True)
class Holder:
    """A scheduler, and for how long it holds a run without renewing its lease."""

    owner: str
    lease_s: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """What will have to be done next."""

    next_due: datetime | None
    """When the next job is due, of those that need not wait for a run to end."""
    abandoned_in_s: float | None
    """In how many seconds the first run has no owner; 0 or less if there is such a run."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What came of claiming jobs that were due."""

    runs: tuple[Claim, ...]
    job_count: int
    """Jobs that were moved on to their next due times."""
    missed_count: int
    """Jobs of which a due time gets no run."""


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
    steps: list[dict[str, object]] = []
    claims: dict[str, Claim] = {}
    missed_count = 0
    for of_job, firing in firings:
        if due.get(of_job.id) != of_job.next_run_at:
            continue
        steps.append({"job_id": of_job.id, "following": firing.next_run_at})
        missed_count += firing.missed
        if firing.run_for is not None:
            run_id = new_id("run")
            claims[run_id] = Claim(
                of_job, run_id, holder.owner, 1, firing.run_for, RunState.CLAIMED
            )
    inserted = _insert(connection, claims.values(), holder.lease_s, now)
    if steps:
        connection.execute(_ADVANCE, steps)
    return Claimed(tuple(claims[run_id] for run_id in inserted), len(steps), missed_count)


def _insert(
    connection: sa.Connection, claims: Collection[Claim], lease_s: float, now: datetime
) -> list[str]:
    """Return the ids of those claims whose due time had no run yet."""
    rows = [
        {
            "id": claim.run_id,
            "job_id": claim.job.id,
            "scheduled_for": claim.scheduled_for,
            "state": claim.state,
            "owner": claim.owner,
            "epoch": claim.epoch,
            "claimed_at": now,
            "output": "",
            "error": "",
            "lease_s": lease_s,
        }
        for claim in claims
    ]
    return list(connection.execute(_CLAIM, rows).scalars()) if rows else []


def take_over(connection: sa.Connection, holder: Holder, limit: int) -> tuple[Claim, ...]:
    """Claim open runs that nobody holds: their owner has let go of them, or its lease has ended."""
    rows = connection.execute(_ABANDONED, {"limit": limit}).all()
    if not rows:
        return ()
    values = {"new_owner": holder.owner, "lease_s": holder.lease_s}
    connection.execute(_TAKE_OVER, [{"run_id": row.run_id, **values} for row in rows])
    return tuple(
        Claim(
            job=job_of(row),
            run_id=row.run_id,
            owner=holder.owner,
            epoch=row.epoch + 1,
            scheduled_for=row.scheduled_for,
            state=RunState(row.state),
            output=row.output,
            error=row.error,
        )
        for row in rows
    )


def renew(connection: sa.Connection, holder: Holder, run_ids: Collection[str]) -> None:
    """Extend the leases of those of the runs that the holder still owns."""
    values = {"run_ids": list(run_ids), "of_owner": holder.owner, "lease_s": holder.lease_s}
    connection.execute(_RENEW, values)


def release(connection: sa.Connection, holder: Holder) -> None:
    """Leave the holder's open runs to whoever comes first."""
    connection.execute(_RELEASE.where(run.c.owner == holder.owner))


def release_others(connection: sa.Connection, holder: Holder) -> None:
    """Leave all other owners' open runs to whoever comes first."""
    connection.execute(_RELEASE.where(run.c.owner != holder.owner))


def look(connection: sa.Connection, holder: Holder) -> Outlook:
    """Return what there is to do next, for this holder."""
    due = connection.execute(_NEXT_DUE).scalar()
    abandoned_at, now = connection.execute(_NEXT_ABANDONED, {"owner": holder.owner}).one()
    left_s = None if abandoned_at is None else (abandoned_at - now).total_seconds()
    return Outlook(due, left_s)
