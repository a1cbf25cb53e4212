"""Statements of taking over the jobs of files. Each takes the connection of a transaction."""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from scheduler_service.jobs import Job
from scheduler_service.storage import jobs
from scheduler_service.storage.schema import home_import, job, of_agent
from services.database import insert_ignore

IMPORTED = "imported"
"""In place of the digest of a request: none asks for such a job again."""


class Inserted(Struct, frozen=True):
    """What became of a job of a file."""

    job_id: str
    """Empty where it is none here."""
    is_new: bool
    notes: tuple[str, ...] = ()


def stable_id(profile: str, given: str) -> str:
    """The id of a job whose own cannot be one here, or is another profile's: always the same."""
    digest = hashlib.sha256(f"{profile}\0{given}".encode()).hexdigest()
    return f"job_{digest[:12]}"


def is_closed(connection: sa.Connection, profile: str) -> bool:
    """Whether the jobs of a profile's home have been taken, or are not to be."""
    query = sa.select(home_import.c.profile).where(home_import.c.profile == profile)
    return connection.execute(query).scalar() is not None


def close(connection: sa.Connection, profile: str, now: datetime) -> bool:
    """Take the jobs of a profile's home no more; False if that was so already."""
    insert = insert_ignore(home_import).values(profile=profile, imported_at=now)
    return connection.execute(insert.returning(home_import.c.profile)).scalar() is not None


def insert_all(connection: sa.Connection, given: Sequence[Job]) -> list[Inserted]:
    """Store those jobs that are not there yet; what became of each, in their order."""
    ids = {each.id: _id_here(connection, each) for each in given}
    return [_insert(connection, each, ids) for each in given]


def would_insert(connection: sa.Connection, given: Sequence[Job]) -> list[Inserted]:
    """What would become of each job."""
    found = [_found(connection, _id_here(connection, each)) for each in given]
    return [
        Inserted(_id_here(connection, each), is_new=True) if present is None else present
        for each, present in zip(given, found, strict=True)
    ]


def all_of(connection: sa.Connection, profile: str) -> list[Job]:
    """Every job of a profile, the oldest first."""
    query = (
        sa.select(job)
        .where(job.c.profile == profile, job.c.deleted_at.is_(None), of_agent)
        .order_by(job.c.created_at, job.c.id)
    )
    return list(map(jobs.job_of, connection.execute(query)))


def _insert(connection: sa.Connection, given: Job, ids: dict[str, str]) -> Inserted:
    job_id = ids[given.id]
    if (present := _found(connection, job_id)) is not None:
        return present
    wanted = [ids.get(each, each) for each in given.spec.options.context_job_ids]
    others = [each for each in wanted if each not in ids.values()]
    missing = set(jobs.missing_jobs(connection, given.profile, others))
    found = tuple(each for each in wanted if each not in missing)
    spec = replace(given.spec, options=replace(given.spec.options, context_job_ids=found))
    jobs.insert_job(connection, replace(given, id=job_id, spec=spec), IMPORTED)
    told = (f"no output of jobs that are not here is shown to it: {', '.join(sorted(missing))}",)
    return Inserted(job_id, is_new=True, notes=told if missing else ())


def _found(connection: sa.Connection, job_id: str) -> Inserted | None:
    stored = jobs.find_job(connection, job_id)
    if stored is None:
        return None
    if stored.deleted:
        return Inserted("", is_new=False, notes=("it was removed here",))
    return Inserted(job_id, is_new=False)


def _id_here(connection: sa.Connection, given: Job) -> str:
    """The job's own id, or where another profile has a job of that, always the same other one."""
    stored = jobs.find_job(connection, given.id)
    if stored is None or stored.job.profile == given.profile:
        return given.id
    return stable_id(given.profile, given.id)
