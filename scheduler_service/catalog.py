"""The jobs of each profile: creating, finding and deleting them."""

import asyncio
import hashlib
import json
from functools import partial

import sqlalchemy as sa
import tzlocal
from msgspec import Struct, to_builtins

from scheduler_service.jobs import Job, JobState, Origin, Run
from scheduler_service.planner import CHANNEL
from scheduler_service.schedule import next_after, parse
from scheduler_service.storage import jobs, runs
from scheduler_service.storage.jobs import Position
from services.clock import Clock
from services.database import Database
from services.errors import AlreadyExists, NotFound


class JobRequest(Struct, frozen=True):
    """A job as somebody asks for it; an empty time zone means the configured one."""

    id: str
    profile: str
    name: str
    prompt: str
    schedule: str
    time_zone: str
    origin: Origin | None
    sandbox_template: str = ""
    unattended: str = ""

    @property
    def digest(self) -> str:
        """What tells the same request from another one with the same id."""
        fields = to_builtins(self)
        for later in ("sandbox_template", "unattended"):
            if not fields[later]:
                del fields[later]  # as of jobs that were stored before there was a choice
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


class JobCatalog:
    """Everybody's jobs; each sees only those of its profile."""

    def __init__(self, database: Database, clock: Clock, time_zone: str | None) -> None:
        """Schedules that name no time zone are in `time_zone`; None means this machine's."""
        self._database = database
        self._clock = clock
        self._time_zone = time_zone

    async def create(self, request: JobRequest) -> Job:
        """Store a job, or return it if the same request has come before."""
        # First of all: asked for again, "2026-03-01T09:00" may have become the past.
        stored = await self._database.read(partial(jobs.find_job, job_id=request.id))
        if stored is None:
            job = await asyncio.to_thread(self._planned, request)
            insert = partial(jobs.insert_job, new=job, request_digest=request.digest)
            stored = await self._database.write(insert, notify=CHANNEL)
        if stored.deleted or stored.request_digest != request.digest:
            raise AlreadyExists(f"the job id {request.id} was used before for another job")
        return stored.job

    async def get(self, profile: str, job_id: str) -> Job:
        """Return a job; another profile's is not found."""
        return await self._database.read(partial(_get, profile=profile, job_id=job_id))

    async def page(
        self, profile: str, limit: int, after: Position | None
    ) -> tuple[list[Job], Position | None]:
        """Return a page of jobs, the one due next first, and where it ended if there are more."""
        found = await self._database.read(
            partial(jobs.list_jobs, profile=profile, limit=limit + 1, after=after)
        )
        page = found[:limit]
        more = len(found) > limit
        return [job for job, _ in page], page[-1][1] if more else None

    async def delete(self, profile: str, job_id: str) -> None:
        """Let a job run no more; what runs goes on to its end."""
        now = self._clock.now()
        delete = partial(jobs.delete_job, profile=profile, job_id=job_id, now=now)
        if not await self._database.write(delete):
            raise _not_found(job_id)

    async def runs(self, profile: str, job_id: str, limit: int) -> list[Run]:
        """Return a job's runs, the latest first."""

        def read(connection: sa.Connection) -> list[Run]:
            _get(connection, profile, job_id)
            return runs.list_runs(connection, job_id, limit)

        return await self._database.read(read)

    def _planned(self, request: JobRequest) -> Job:
        now = self._clock.now()
        time_zone = request.time_zone or self._time_zone or tzlocal.get_localzone_name()
        schedule = parse(request.schedule, time_zone, now)
        return Job(
            id=request.id,
            profile=request.profile,
            name=request.name,
            prompt=request.prompt,
            schedule_text=request.schedule,
            time_zone=time_zone,
            schedule=schedule,
            origin=request.origin,
            state=JobState.SCHEDULED,
            next_run_at=next_after(schedule, now),
            created_at=now,
            sandbox_template=request.sandbox_template,
            unattended=request.unattended,
        )


def _get(connection: sa.Connection, profile: str, job_id: str) -> Job:
    stored = jobs.find_job(connection, job_id)
    if stored is None or stored.deleted or stored.job.profile != profile:
        raise _not_found(job_id)
    return stored.job


def _not_found(job_id: str) -> NotFound:
    return NotFound(f"there is no job {job_id}")
