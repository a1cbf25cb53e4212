"""Imports jobs from a file of a home, and exports them to one."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

import sqlalchemy as sa
from msgspec import Struct, field
from msgspec.structs import replace

from scheduler_service.clients import AgentClient
from scheduler_service.errors import attack
from scheduler_service.home.document import document_of
from scheduler_service.home.jobs import ImportContext, ReadJob, read_document, stable_id
from scheduler_service.home.profiles import ZoneOf
from scheduler_service.jobs import Job, notes_on, without_secrets
from scheduler_service.runs.prompts import own_words
from scheduler_service.schedule.schedule import check_zone
from scheduler_service.storage import jobs
from scheduler_service.storage.claims import CHANNEL
from scheduler_service.storage.schema import home_import, job, of_agent
from services.clock import Clock
from services.database import Database, insert_ignore
from services.errors import InvalidArgument, Unavailable
from services.redaction.redactor import Redactor

MAX_DOCUMENT_BYTES = 3 * 1024 * 1024
IMPORTED = "imported"
"""Stands in for a request digest: no request creates such a job again."""
_SCANNED_TOGETHER = 50


class JobFile(Struct, frozen=True):
    """A job file and how to import it."""

    profile: str
    document: bytes
    time_zone: str = ""
    """The zone of schedules that name none; empty: the profile's."""
    scripts: Mapping[str, str] = field(default_factory=dict[str, str])
    is_paused: bool = False
    dry_run: bool = False
    closes_home: bool = False
    """Later starts of a scheduler no longer import from the profile's home."""
    once: bool = False
    """Do nothing if the home has been closed before."""


class ImportedJob(Struct, frozen=True):
    """The result for one job of a file."""

    job_id: str
    """Empty if the job was not imported."""
    name: str
    outcome: str
    """One of `taken`, `present` and `left`."""
    notes: tuple[str, ...] = ()


class JobMover(Struct, frozen=True):
    """Imports and exports jobs."""

    database: Database
    clock: Clock
    zone_of_profile: ZoneOf
    grace: timedelta
    check: Callable[[Job], None]
    """Raises InvalidArgument for a job that must not exist."""
    redactor: Redactor

    async def take(self, file: JobFile, scanner: AgentClient | None = None) -> list[ImportedJob]:
        """Store the new jobs of a file in one transaction; return the result for each."""
        if len(file.document) > MAX_DOCUMENT_BYTES:
            problem = f"has more than {MAX_DOCUMENT_BYTES} bytes; take it in parts"
            raise InvalidArgument(f"the file {problem}", fields={"document": problem})
        read = await asyncio.to_thread(self._read, file)
        if scanner is not None:
            read = await _scanned(read, scanner)
        now = self.clock.now()

        def write(connection: sa.Connection) -> list[ImportedJob]:
            if file.closes_home and not _close(connection, file.profile, now) and file.once:
                return []
            return _store(connection, read, dry_run=False)

        if file.dry_run:
            return await self.database.read(partial(_store, read=read, dry_run=True))
        return await self.database.write(write, notify=CHANNEL)

    async def give(self, profile: str) -> tuple[bytes, int]:
        """Return a profile's jobs as a file, and their number."""
        found = await self.database.read(partial(_all_of, profile=profile))
        return await asyncio.to_thread(document_of, found, self.clock.now()), len(found)

    def _read(self, file: JobFile) -> list[ReadJob]:
        zone = file.time_zone or self.zone_of_profile(file.profile)
        try:
            check_zone(zone)
        except ValueError as error:
            raise InvalidArgument(str(error), fields={"time_zone": str(error)}) from None
        reading = ImportContext(
            profile=file.profile,
            zone=zone,
            now=self.clock.now(),
            grace=self.grace,
            scripts=file.scripts,
            is_paused=file.is_paused,
        )
        read, seen = list[ReadJob](), set[str]()
        for each in read_document(file.document, reading):
            checked = self._checked(each)
            if checked.job is not None and checked.job.id in seen:
                checked = ReadJob(each.name, None, ("another job of the file has its id",))
            seen.update([checked.job.id] if checked.job is not None else [])
            read.append(checked)
        return read

    def _checked(self, read: ReadJob) -> ReadJob:
        try:
            if read.job is None:
                return read
            self.check(read.job)
        except (InvalidArgument, ValueError) as error:
            return ReadJob(read.name, None, (str(error),))
        clean = without_secrets(read.job.spec, self.redactor)
        notes = (*read.notes, *notes_on(clean))
        return replace(read, job=replace(read.job, spec=clean), notes=notes)


async def _scanned(read: Sequence[ReadJob], scanner: AgentClient) -> list[ReadJob]:
    """Drop jobs that look like attacks, if the scanner can be reached."""
    judged = list(read)
    asked = [number for number, each in enumerate(read) if each.job is not None]
    for start in range(0, len(asked), _SCANNED_TOGETHER):
        some = asked[start : start + _SCANNED_TOGETHER]
        texts = [own_words(given) for number in some if (given := read[number].job)]
        with contextlib.suppress(Unavailable):
            for number, families in zip(some, await scanner.scan(texts), strict=True):
                if families:
                    judged[number] = ReadJob(read[number].name, None, (attack(families),))
    return judged


def is_closed(connection: sa.Connection, profile: str) -> bool:
    """Return whether the jobs of a profile's home have been imported or declined."""
    query = sa.select(home_import.c.profile).where(home_import.c.profile == profile)
    return connection.execute(query).scalar() is not None


def _close(connection: sa.Connection, profile: str, now: datetime) -> bool:
    """Stop imports from a profile's home; False if they were stopped before."""
    insert = insert_ignore(home_import).values(profile=profile, imported_at=now)
    return connection.execute(insert.returning(home_import.c.profile)).scalar() is not None


def _store(
    connection: sa.Connection, read: Sequence[ReadJob], *, dry_run: bool
) -> list[ImportedJob]:
    given = [each.job for each in read if each.job is not None]
    ids = {each.id: _id_here(connection, each) for each in given}
    return [_moved(connection, each, ids, dry_run=dry_run) for each in read]


def _moved(
    connection: sa.Connection, read: ReadJob, ids: Mapping[str, str], *, dry_run: bool
) -> ImportedJob:
    given = read.job
    if given is None:
        return ImportedJob("", read.name, "left", read.notes)
    job_id = ids[given.id]
    if (stored := jobs.find_job(connection, job_id)) is not None:
        if stored.deleted:
            return ImportedJob("", read.name, "left", (*read.notes, "it was removed here"))
        return ImportedJob(job_id, read.name, "present")
    wanted = [ids.get(each, each) for each in given.spec.options.context_job_ids]
    others = [each for each in wanted if each not in ids.values()]
    missing = jobs.missing_jobs(connection, given.profile, others)
    found = tuple(each for each in wanted if each not in missing)
    if not dry_run:
        spec = replace(given.spec, options=replace(given.spec.options, context_job_ids=found))
        jobs.insert_job(connection, replace(given, id=job_id, spec=spec), IMPORTED)
    text = f"no output of jobs that are not here is shown to it: {', '.join(sorted(missing))}"
    return ImportedJob(job_id, read.name, "taken", (*read.notes, text) if missing else read.notes)


def _id_here(connection: sa.Connection, given: Job) -> str:
    """Return the job's own id, or a derived one if it belongs to another profile."""
    stored = jobs.find_job(connection, given.id)
    if stored is None or stored.job.profile == given.profile:
        return given.id
    return stable_id(given.profile, given.id)


def _all_of(connection: sa.Connection, profile: str) -> list[Job]:
    query = (
        sa.select(job)
        .where(job.c.profile == profile, job.c.deleted_at.is_(None), of_agent)
        .order_by(job.c.created_at, job.c.id)
    )
    return list(map(jobs.job_of, connection.execute(query)))
