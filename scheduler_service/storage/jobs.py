"""Statements over jobs. Each function takes the connection of an open transaction."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, cast

import sqlalchemy as sa
from msgspec import Struct, json

from scheduler_service.jobs import Job, JobKind, JobSpec, JobState, LastRun
from scheduler_service.schedule.schedule import Schedule
from scheduler_service.storage.schema import job, of_agent, open_run, run
from services.database.sql import UtcTime, insert_ignore
from services.validation import decode

# Jobs that never run again come last.
_ORDER = sa.func.coalesce(
    job.c.next_run_at, sa.literal(datetime(9999, 12, 31, tzinfo=UTC), UtcTime())
)
_BY_ID = sa.select(job).where(job.c.id == sa.bindparam("job_id"))

WAITS = sa.and_(~job.c.may_overlap, sa.exists().where(run.c.job_id == job.c.id, open_run))
"""Whether a job waits for a run. Lock its row in an earlier statement to see concurrent changes."""
_LOCK = (
    sa.select(job.c.id)
    .where(job.c.id.in_(sa.bindparam("job_ids", expanding=True)))
    .order_by(job.c.id)
    .with_for_update()
)
_SETTLE = (
    sa.update(job).where(job.c.id.in_(sa.bindparam("job_ids", expanding=True))).values(waits=WAITS)
)


class StoredJob(Struct, frozen=True):
    """A job with the data for answering repeated requests."""

    job: Job
    request_digest: str
    update_id: str
    """The id of the latest update request; empty if there is none."""
    deleted: bool


class Position(Struct, frozen=True):
    """The position in a profile's list of jobs at which a page ended."""

    next_run_at: datetime
    job_id: str


def insert_job(connection: sa.Connection, new: Job, request_digest: str) -> StoredJob:
    """Store a job unless its id is taken; return what is stored under the id."""
    values = {
        "id": new.id,
        "kind": new.kind,
        "profile": new.profile,
        "request_digest": request_digest,
        "created_at": new.created_at,
        "paused_at": new.created_at if new.state is JobState.PAUSED else None,
        "last_run": new.last_run and to_text(new.last_run),
        **_spec_values(new),
        **_due_values(new),
    }
    connection.execute(insert_ignore(job).values(values))
    stored = find_job(connection, new.id)
    assert stored is not None
    return stored


def find_job(connection: sa.Connection, job_id: str) -> StoredJob | None:
    """Return a job of any profile, even a deleted one; the caller checks access."""
    row = connection.execute(_BY_ID, {"job_id": job_id}).one_or_none()
    if row is None:
        return None
    return StoredJob(
        job_of(row), row.request_digest, row.update_id or "", row.deleted_at is not None
    )


def lock_jobs(connection: sa.Connection, job_ids: Collection[str]) -> None:
    """Lock jobs, so that nobody changes them or claims or ends their runs before the commit."""
    connection.execute(_LOCK, {"job_ids": job_ids})


def locked_job(connection: sa.Connection, job_id: str) -> StoredJob | None:
    """Lock and return a job."""
    lock_jobs(connection, [job_id])
    return find_job(connection, job_id)


def list_jobs(
    connection: sa.Connection, profile: str, limit: int, after: Position | None
) -> list[tuple[Job, Position]]:
    """Return a profile's jobs with their positions, next due first."""
    query = (
        sa.select(job, _ORDER.label("position"))
        .where(job.c.profile == profile, job.c.deleted_at.is_(None), of_agent)
        .order_by(_ORDER, job.c.id)
        .limit(limit)
    )
    if after is not None:
        query = query.where(sa.tuple_(_ORDER, job.c.id) > (after.next_run_at, after.job_id))
    rows = connection.execute(query).all()
    return [(job_of(row), Position(row.position, row.id)) for row in rows]


def update_job(
    connection: sa.Connection,
    changed: Job,
    *,
    before: Job,
    is_rescheduled: bool,
    update_id: str = "",
) -> bool:
    """Store a changed job; due times only with its schedule; False on a concurrent change."""
    values = _spec_values(changed)
    values |= {"updated_at": changed.updated_at, "update_id": update_id or None}
    unchanged = [job.c.updated_at.is_not_distinct_from(before.updated_at)]
    if is_rescheduled:
        values |= _due_values(changed)
        # A due time that was claimed meanwhile counts as a change.
        unchanged.append(job.c.run_count == before.run_count)
        unchanged.append(job.c.next_run_at.is_not_distinct_from(before.next_run_at))
    of_job = (job.c.id == changed.id, job.c.deleted_at.is_(None))
    update = sa.update(job).where(*of_job, *unchanged).values(values)
    is_changed = connection.execute(update).rowcount == 1
    settle_waiting(connection, [changed.id] if is_changed else [])
    return is_changed


def settle_waiting(connection: sa.Connection, job_ids: Collection[str]) -> None:
    """Update whether jobs, locked by this transaction, wait for a run."""
    if job_ids:
        connection.execute(_SETTLE, {"job_ids": job_ids})


def pause_job(connection: sa.Connection, job_id: str, now: datetime) -> bool:
    """Pause a job until it is resumed; False if it is paused already."""
    update = sa.update(job).where(job.c.id == job_id, job.c.paused_at.is_(None))
    done = connection.execute(update.values(paused_at=now, updated_at=now, next_run_at=None))
    return done.rowcount == 1


def resume_job(
    connection: sa.Connection, job_id: str, spec: JobSpec, next_run_at: datetime, now: datetime
) -> None:
    """Resume a paused job as it is now defined; other jobs stay as they are."""
    update = sa.update(job).where(job.c.id == job_id, job.c.paused_at.is_not(None))
    values = {"paused_at": None, "updated_at": now, "next_run_at": next_run_at}
    connection.execute(update.values(**values, spec=to_text(spec)))


def missing_jobs(connection: sa.Connection, profile: str, job_ids: Collection[str]) -> list[str]:
    """Return the given jobs that the profile does not have."""
    query = sa.select(job.c.id).where(
        job.c.profile == profile, job.c.deleted_at.is_(None), job.c.id.in_(job_ids), of_agent
    )
    there = set(connection.execute(query).scalars())
    return [job_id for job_id in job_ids if job_id not in there]


def delete_job(connection: sa.Connection, profile: str, job_id: str, now: datetime) -> bool:
    """Hide a job and stop its schedule; False if the profile has no such job."""
    of_profile = sa.update(job).where(job.c.id == job_id, job.c.profile == profile, of_agent)
    deleted_at = sa.func.coalesce(job.c.deleted_at, sa.literal(now, UtcTime()))
    deleted = connection.execute(of_profile.values(next_run_at=None, deleted_at=deleted_at))
    return deleted.rowcount == 1


def job_of(row: sa.Row[Any]) -> Job:
    """Build a job from a row with all columns."""
    return Job(
        id=row.id,
        profile=row.profile,
        spec=spec_of_text(row.spec),
        schedule=decode(row.schedule, cast("type[Schedule]", Schedule)),
        state=_state_of(row),
        next_run_at=row.next_run_at,
        created_at=row.created_at,
        run_count=row.run_count,
        updated_at=row.updated_at,
        last_run=decode(row.last_run, LastRun) if row.last_run else None,
        kind=JobKind(row.kind),
    )


def spec_of_text(text: str) -> JobSpec:
    """Decode a stored JobSpec."""
    return decode(text, JobSpec)


def to_text(record: Struct) -> str:
    """Encode a record for storage."""
    return json.encode(record).decode()


def _state_of(row: sa.Row[Any]) -> JobState:
    if row.paused_at is not None:
        return JobState.PAUSED
    return JobState.COMPLETED if row.next_run_at is None else JobState.SCHEDULED


def _spec_values(of_job: Job) -> dict[str, object]:
    return {"spec": to_text(of_job.spec), "may_overlap": of_job.may_overlap}


def _due_values(due: Job) -> dict[str, object]:
    return {
        "schedule": to_text(due.schedule),
        "next_run_at": due.next_run_at,
        "run_count": due.run_count,
    }
