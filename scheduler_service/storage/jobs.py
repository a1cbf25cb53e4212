"""Statements over jobs. Each function takes the connection of a transaction that has begun."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from msgspec import Struct, json

from scheduler_service.jobs import Job, JobKind, JobState, LastRun, Origin, RunState
from scheduler_service.options import JobOptions, options_of_text, options_to_text
from scheduler_service.schedule.schedule import Cron, Interval, Once, Schedule
from scheduler_service.storage.schema import job, of_agent, open_run, run
from services.database.sql import UtcTime, insert_ignore

_NO_ORIGIN = {
    "platform": None,
    "chat_id": "",
    "thread_id": "",
    "user_id": "",
    "user_name": "",
    "chat_type": "",
}
_NO_SCHEDULE = dict.fromkeys(("run_at", "interval_s", "anchor_at", "cron"))
# Jobs that never run again come last.
_ORDER = sa.func.coalesce(
    job.c.next_run_at, sa.literal(datetime(9999, 12, 31, tzinfo=UTC), UtcTime())
)
_BY_ID = sa.select(job).where(job.c.id == sa.bindparam("job_id"))
_DELETE = (
    sa.update(job)
    .where(
        job.c.id == sa.bindparam("job_id"), job.c.profile == sa.bindparam("of_profile"), of_agent
    )
    .values(
        next_run_at=None,
        deleted_at=sa.func.coalesce(job.c.deleted_at, sa.bindparam("now", type_=UtcTime())),
    )
)

WAITS = sa.and_(~job.c.may_overlap, sa.exists().where(run.c.job_id == job.c.id, open_run))
"""Whether a job has to wait for a run. Whoever stores it holds the job's row since before the
statement, or it might not see what another has just changed."""
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
    """A job, and what only the answer to the next request about it needs."""

    job: Job
    request_digest: str
    update_id: str
    """Of the request that has changed it last; empty where none has, or it had no id."""
    deleted: bool


class Position(Struct, frozen=True):
    """Where in a profile's list of jobs a page ended."""

    next_run_at: datetime
    job_id: str


def insert_job(connection: sa.Connection, new: Job, request_digest: str) -> StoredJob:
    """Store a job unless its id is taken, and return what is stored under its id."""
    values = {
        "id": new.id,
        "kind": new.kind,
        "profile": new.profile,
        "request_digest": request_digest,
        "created_at": new.created_at,
        "paused_at": new.created_at if new.state is JobState.PAUSED else None,
        **_asked_values(new),
        **_due_values(new),
    }
    connection.execute(insert_ignore(job).values(values))
    stored = find_job(connection, new.id)
    assert stored is not None
    return stored


def insert_imported(connection: sa.Connection, new: Job) -> None:
    """Store a job with all that was known of it elsewhere; no request asks for it again."""
    last = new.last_run
    values = {
        "id": new.id,
        "profile": new.profile,
        "request_digest": "imported",
        "created_at": new.created_at,
        "paused_at": new.created_at if new.state is JobState.PAUSED else None,
        "last_run_for": last and last.scheduled_for,
        "last_state": last and last.state,
        "last_error": last and (last.error or None),
        "last_delivery_error": last and (last.delivery_error or None),
        **_asked_values(new),
        **_due_values(new),
    }
    connection.execute(insert_ignore(job).values(values))


def find_job(connection: sa.Connection, job_id: str) -> StoredJob | None:
    """Return a job of any profile, a deleted one too; the caller decides who may see it."""
    row = connection.execute(_BY_ID, {"job_id": job_id}).one_or_none()
    if row is None:
        return None
    return StoredJob(
        job_of(row), row.request_digest, row.update_id or "", row.deleted_at is not None
    )


def lock_jobs(connection: sa.Connection, job_ids: Collection[str]) -> None:
    """Let nobody else change jobs, or claim or end runs of them, before this transaction ends."""
    connection.execute(_LOCK, {"job_ids": job_ids})


def locked_job(connection: sa.Connection, job_id: str) -> StoredJob | None:
    """Return a job as it is and stays until this transaction ends."""
    lock_jobs(connection, [job_id])
    return find_job(connection, job_id)


def list_jobs(
    connection: sa.Connection, profile: str, limit: int, after: Position | None
) -> list[tuple[Job, Position]]:
    """Return a profile's jobs, the one due next first, each with its position."""
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
    """Store what a request asks of a job; False if it was changed or deleted meanwhile.

    Where its schedule stays, its due times are left to the planners.
    """
    values = _asked_values(changed)
    values |= {"updated_at": changed.updated_at, "update_id": update_id or None}
    unchanged = [job.c.updated_at.is_not_distinct_from(before.updated_at)]
    if is_rescheduled:
        values |= _due_values(changed)
        # A due time that was claimed meanwhile counts.
        unchanged.append(job.c.run_count == before.run_count)
        unchanged.append(job.c.next_run_at.is_not_distinct_from(before.next_run_at))
    of_job = (job.c.id == changed.id, job.c.deleted_at.is_(None))
    update = sa.update(job).where(*of_job, *unchanged).values(values)
    is_changed = connection.execute(update).rowcount == 1
    settle_waiting(connection, [changed.id] if is_changed else [])
    return is_changed


def settle_waiting(connection: sa.Connection, job_ids: Collection[str]) -> None:
    """Note of jobs, whose rows this transaction has locked before, whether they wait for a run."""
    if job_ids:
        connection.execute(_SETTLE, {"job_ids": job_ids})


def pause_job(connection: sa.Connection, job_id: str, now: datetime) -> bool:
    """Let a job have no next run until it is resumed; False where it is paused already."""
    update = sa.update(job).where(job.c.id == job_id, job.c.paused_at.is_(None))
    done = connection.execute(update.values(paused_at=now, updated_at=now, next_run_at=None))
    return done.rowcount == 1


def resume_job(
    connection: sa.Connection,
    job_id: str,
    options: JobOptions,
    next_run_at: datetime,
    now: datetime,
) -> None:
    """Let a paused job run again, with these options; another one stays as it is."""
    update = sa.update(job).where(job.c.id == job_id, job.c.paused_at.is_not(None))
    stored = options_to_text(options)
    values = {"paused_at": None, "updated_at": now, "next_run_at": next_run_at, "options": stored}
    connection.execute(update.values(values))


def missing_jobs(connection: sa.Connection, profile: str, job_ids: Collection[str]) -> list[str]:
    """Return which of some jobs the profile does not have."""
    query = sa.select(job.c.id).where(
        job.c.profile == profile, job.c.deleted_at.is_(None), job.c.id.in_(job_ids), of_agent
    )
    there = set(connection.execute(query).scalars())
    return [job_id for job_id in job_ids if job_id not in there]


def delete_job(connection: sa.Connection, profile: str, job_id: str, now: datetime) -> bool:
    """Let a job never run again and hide it; False if the profile has no such job."""
    values = {"job_id": job_id, "of_profile": profile, "now": now}
    return connection.execute(_DELETE, values).rowcount == 1


def job_of(row: sa.Row[Any]) -> Job:
    """Return the job of a row that has all columns of its table."""
    return Job(
        id=row.id,
        profile=row.profile,
        name=row.name,
        prompt=row.prompt,
        schedule_text=row.schedule_text,
        time_zone=row.time_zone,
        schedule=_schedule_of(row),
        origin=_origin_of(row),
        sandbox_template=row.sandbox_template or "",
        unattended=row.unattended or "",
        state=_state_of(row),
        next_run_at=row.next_run_at,
        created_at=row.created_at,
        options=options_of_text(row.options),
        denied=denied_of_text(row.denied),
        run_count=row.run_count,
        updated_at=row.updated_at,
        last_run=_last_run_of(row),
        kind=JobKind(row.kind),
    )


def denied_of_text(text: str | None) -> tuple[str, ...]:
    """What is denied to the runs of a job of which this is stored."""
    return json.decode(text, type=tuple[str, ...]) if text else ()


def _state_of(row: sa.Row[Any]) -> JobState:
    if row.paused_at is not None:
        return JobState.PAUSED
    return JobState.COMPLETED if row.next_run_at is None else JobState.SCHEDULED


def _last_run_of(row: sa.Row[Any]) -> LastRun | None:
    if row.last_run_for is None:
        return None
    return LastRun(
        scheduled_for=row.last_run_for,
        state=RunState(row.last_state),
        error=row.last_error or "",
        delivery_error=row.last_delivery_error or "",
    )


def _asked_values(asked: Job) -> dict[str, object]:
    """What people say of a job but when it runs."""
    return {
        "name": asked.name,
        "prompt": asked.prompt,
        "time_zone": asked.time_zone,
        "sandbox_template": asked.sandbox_template or None,
        "unattended": asked.unattended or None,
        "options": options_to_text(asked.options),
        "denied": json.encode(asked.denied).decode() if asked.denied else None,
        "may_overlap": asked.may_overlap,
        **_origin_values(asked.origin),
    }


def _due_values(due: Job) -> dict[str, object]:
    return {
        "schedule_text": due.schedule_text,
        "next_run_at": due.next_run_at,
        "run_count": due.run_count,
        **_NO_SCHEDULE,
        **_schedule_values(due.schedule),
    }


def _schedule_values(schedule: Schedule) -> dict[str, object]:
    values: dict[str, object] = {"schedule_kind": schedule.kind}
    match schedule:
        case Once(at):
            return values | {"run_at": at}
        case Interval(every, anchor):
            return values | {"interval_s": every // timedelta(seconds=1), "anchor_at": anchor}
        case Cron(expression):
            return values | {"cron": expression}


def _schedule_of(row: sa.Row[Any]) -> Schedule:
    match row.schedule_kind:
        case "once":
            return Once(row.run_at)
        case "interval":
            return Interval(timedelta(seconds=row.interval_s), row.anchor_at)
        case _:
            return Cron(row.cron, row.time_zone)


def _origin_values(origin: Origin | None) -> dict[str, str | None]:
    if origin is None:
        return _NO_ORIGIN
    return {
        "platform": origin.platform,
        "chat_id": origin.chat_id,
        "thread_id": origin.thread_id,
        "user_id": origin.user_id,
        "user_name": origin.user_name,
        "chat_type": origin.chat_type,
    }


def _origin_of(row: sa.Row[Any]) -> Origin | None:
    if row.platform is None:
        return None
    return Origin(
        platform=row.platform,
        chat_id=row.chat_id,
        thread_id=row.thread_id,
        user_id=row.user_id,
        user_name=row.user_name,
        chat_type=row.chat_type,
    )
