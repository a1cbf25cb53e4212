"""Taking over jobs that a home keeps in a file, and giving jobs as such a file."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import sqlalchemy as sa
from msgspec import Struct, field
from msgspec.structs import replace

from scheduler_service.clients import AgentClient
from scheduler_service.errors import attack
from scheduler_service.home.document import document_of
from scheduler_service.home.jobs import Reading, ReadJob, read_document
from scheduler_service.home.profiles import HomeOf
from scheduler_service.jobs import Job, notes_on, without_secrets
from scheduler_service.runs.prompts import own_words
from scheduler_service.schedule.schedule import check_zone
from scheduler_service.storage import imports
from scheduler_service.storage.claims import CHANNEL
from scheduler_service.storage.imports import Inserted
from services.clock import Clock
from services.database import Database
from services.errors import InvalidArgument, Unavailable
from services.redact import Redactor

MAX_DOCUMENT_BYTES = 3 * 1024 * 1024
_SCANNED_TOGETHER = 50


class JobFile(Struct, frozen=True):
    """A file of jobs, and what is to be made of it."""

    profile: str
    document: bytes
    time_zone: str = ""
    """Of schedules that name none; empty is the profile's."""
    scripts: Mapping[str, str] = field(default_factory=dict[str, str])
    is_paused: bool = False
    dry_run: bool = False
    closes_home: bool = False
    """The profile's home is not read any more when a scheduler starts."""
    once: bool = False
    """Nothing is done if the home has been closed before."""


class Moved(Struct, frozen=True):
    """What became of a job of a file, as its message has it."""

    job_id: str
    """Empty where it is none here."""
    name: str
    outcome: str
    """It is `taken`, was `present`, or is `left`."""
    notes: tuple[str, ...] = ()


class JobMover:
    """Everybody's jobs, as files."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        home_of: HomeOf,
        grace: timedelta,
        check: Callable[[Job], None],
        redactor: Redactor,
    ) -> None:
        """`check` raises InvalidArgument for what no job may be."""
        self._database = database
        self._clock = clock
        self._home_of = home_of
        self._grace = grace
        self._check = check
        self._redactor = redactor

    async def take(self, file: JobFile, scanner: AgentClient | None = None) -> list[Moved]:
        """Store the jobs of a file that are not there yet, all at once; what became of each.

        Prompts are scanned before each run in any case.
        """
        if len(file.document) > MAX_DOCUMENT_BYTES:
            problem = f"has more than {MAX_DOCUMENT_BYTES} bytes; take it in parts"
            raise InvalidArgument(f"the file {problem}", fields={"document": problem})
        read = await asyncio.to_thread(self._read, file)
        if scanner is not None:
            read = await _scanned(read, scanner)
        found = [each.job for each in read if each.job is not None]
        now = self._clock.now()

        def write(connection: sa.Connection) -> list[Inserted] | None:
            if file.closes_home and not imports.close(connection, file.profile, now) and file.once:
                return None
            return imports.insert_all(connection, found)

        if file.dry_run:
            stored = await self._database.read(partial(imports.would_insert, given=found))
        else:
            stored = await self._database.write(write, notify=CHANNEL)
        return [] if stored is None else _moved(read, stored)

    async def give(self, profile: str) -> tuple[bytes, int]:
        """A profile's jobs as a file, and how many they are."""
        jobs = await self._database.read(partial(imports.all_of, profile=profile))
        return await asyncio.to_thread(document_of, jobs, self._clock.now()), len(jobs)

    def _read(self, file: JobFile) -> list[ReadJob]:
        home = self._home_of(file.profile)
        zone = file.time_zone or home.time_zone
        try:
            check_zone(zone)
        except ValueError as error:
            raise InvalidArgument(str(error), fields={"time_zone": str(error)}) from None
        reading = Reading(
            profile=file.profile,
            zone=zone,
            now=self._clock.now(),
            grace=self._grace,
            scripts=file.scripts,
            is_paused=file.is_paused,
            channels=home.channels,
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
            self._check(read.job)
        except (InvalidArgument, ValueError) as error:
            return ReadJob(read.name, None, (str(error),))
        clean = without_secrets(read.job.spec, self._redactor)
        notes = (*read.notes, *notes_on(clean))
        return replace(read, job=replace(read.job, spec=clean), notes=notes)


async def _scanned(read: Sequence[ReadJob], scanner: AgentClient) -> list[ReadJob]:
    """The jobs without those whose words look like attacks, where that can be asked."""
    judged = list(read)
    asked = [number for number, each in enumerate(read) if each.job is not None]
    for start in range(0, len(asked), _SCANNED_TOGETHER):
        some = asked[start : start + _SCANNED_TOGETHER]
        texts = [own_words(job) for number in some if (job := read[number].job) is not None]
        with contextlib.suppress(Unavailable):
            for number, families in zip(some, await scanner.scan(texts), strict=True):
                if families:
                    judged[number] = ReadJob(read[number].name, None, (attack(families),))
    return judged


def _moved(read: Sequence[ReadJob], stored: Sequence[Inserted]) -> list[Moved]:
    remaining = iter(stored)
    moved: list[Moved] = []
    for each in read:
        put = Inserted("", is_new=False) if each.job is None else next(remaining)
        outcome = "taken" if put.is_new else "present" if put.job_id else "left"
        notes = put.notes if outcome == "present" else (*each.notes, *put.notes)
        moved.append(Moved(put.job_id, each.name, outcome, notes))
    return moved
