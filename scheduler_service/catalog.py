"""The jobs of each profile: creating, finding, changing, pausing, running and deleting them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import sqlalchemy as sa
import tzlocal
from msgspec import Struct
from msgspec.structs import replace

from scheduler_service import stopping
from scheduler_service.errors import attack
from scheduler_service.jobs import Job, JobRequest, JobState, Run
from scheduler_service.planner import CHANNEL
from scheduler_service.redaction import without_secrets
from scheduler_service.schedule import Schedule, next_after, parse, zone_of
from scheduler_service.storage import jobs, runs
from scheduler_service.storage.jobs import Position, StoredJob
from services.clock import Clock
from services.database import Database
from services.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Unavailable,
)
from services.redact import Redactor

_WATCH_S = 0.25
"""How often a watched run is looked at: what changes it may be any replica."""


class Agent(Protocol):
    """Who judges prompts and keeps budgets. Raises Unavailable."""

    async def scan(self, texts: Sequence[str]) -> Sequence[tuple[str, ...]]:
        """Return for each text the kinds of attacks that it looks like."""
        ...

    async def limit(self, job: Job, *, keeps_set: bool = False) -> None:
        """Hold the runs of a job to its budget, or to none of its own."""
        ...


class Preview(Struct, frozen=True):
    """When a schedule would be due."""

    schedule: Schedule
    time_zone: str
    times: tuple[datetime, ...]


class JobCatalog:
    """Everybody's jobs; each sees only those of its profile."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        time_zone: str | None,
        agent: Agent,
        redactor: Redactor,
    ) -> None:
        """Schedules that name no time zone are in `time_zone`; None means this machine's."""
        self._database = database
        self._agent = agent
        self._clock = clock
        self._time_zone = time_zone
        self._redactor = redactor

    async def create(self, request: JobRequest) -> Job:
        """Store a job, or return it if the same request has come before."""
        # First of all: asked for again, "2026-03-01T09:00" may have become the past.
        stored = await self._database.read(partial(jobs.find_job, job_id=request.id))
        if stored is None:
            clean = without_secrets(request, self._redactor)
            await self._check(clean)
            job = await asyncio.to_thread(_planned, clean, self._zone, self._clock.now())
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

    async def update(
        self,
        profile: str,
        job_id: str,
        change: Callable[[Job], JobRequest],
        *,
        anew: bool,
        update_id: str = "",
    ) -> Job:
        """Store what a job is changed to, once where the change has an id and is the latest.

        `anew` reads its schedule as if it was written now.
        """
        find = partial(_stored, profile=profile, job_id=job_id)
        while True:
            stored = await self._database.read(find)
            before = stored.job
            if update_id and stored.update_id == update_id:
                return before
            request = without_secrets(change(before), self._redactor)
            await self._check(request)
            changed = await asyncio.to_thread(self._replanned, before, request, anew=anew)
            is_rescheduled = anew or changed.options.max_runs != before.options.max_runs
            store = partial(
                jobs.update_job,
                changed=changed,
                before=before,
                is_rescheduled=is_rescheduled,
                update_id=update_id,
            )
            if not changed.options.has_budget_of(before.options):
                await self._agent.limit(changed)
            # Who was changed in between is read and changed again.
            if await self._database.write(store, notify=CHANNEL):
                return await self.get(profile, job_id)

    async def pause(self, profile: str, job_id: str) -> Job:
        """Let a job run no more until it is resumed, but for what somebody asks for by hand."""
        now = self._clock.now()

        def write(connection: sa.Connection) -> Job:
            _get(connection, profile, job_id)
            if jobs.pause_job(connection, job_id, now):
                runs.cancel_unbegun(connection, job_id, now, is_paused=True)
            return _get(connection, profile, job_id)

        return await self._database.write(write, notify=stopping.CHANNEL)

    async def resume(self, profile: str, job_id: str) -> Job:
        """Let a paused job run again, from now on."""
        now = self._clock.now()
        paused = await self.get(profile, job_id)
        following = await asyncio.to_thread(_following, paused, now)
        if paused.state is not JobState.PAUSED:
            return paused
        if following is None:
            raise FailedPrecondition(
                f"job {job_id} has no due time any more; give it another schedule, or run it now"
            )

        def write(connection: sa.Connection) -> Job:
            _get(connection, profile, job_id)
            jobs.resume_job(connection, job_id, following, now)
            return _get(connection, profile, job_id)

        return await self._database.write(write, notify=CHANNEL)

    async def run_now(self, profile: str, job_id: str, run_id: str) -> Run:
        """Run a job once, whatever its schedule says; asked for again, return that run."""
        now = self._clock.now()

        def write(connection: sa.Connection) -> Run:
            jobs.lock_jobs(connection, [job_id])
            job = _get(connection, profile, job_id)
            requested = runs.request_run(connection, job, run_id, now)
            if requested.job_id != job_id:
                raise AlreadyExists(f"the run id {run_id} was used before for another run")
            return requested

        return await self._database.write(write, notify=CHANNEL)

    async def run(self, profile: str, run_id: str) -> Run:
        """Return a run, also of a job that was deleted; one of another profile's is not found."""

        def read(connection: sa.Connection) -> Run:
            found = runs.find_run(connection, run_id)
            job = None if found is None else jobs.find_job(connection, found.job_id)
            if found is None or job is None or job.job.profile != profile:
                raise NotFound(f"there is no run {run_id}")
            return found

        return await self._database.read(read)

    async def watch(self, profile: str, run_id: str) -> AsyncGenerator[Run]:
        """Yield a run as it is, at once and after each change, until it has ended."""
        shown: Run | None = None
        while shown is None or shown.finished_at is None:
            run = await self.run(profile, run_id)
            if run != shown:
                shown = run
                yield run
            else:
                await self._clock.sleep(_WATCH_S)

    async def preview(self, text: str, time_zone: str, count: int) -> Preview:
        """Return when a schedule would be due next."""
        now = self._clock.now()

        def plan() -> Preview:
            zone = zone_of(text, self._zone(time_zone))
            schedule = parse(text, zone, now)
            times: list[datetime] = []
            following = next_after(schedule, now)
            while following is not None and len(times) < count:
                times.append(following)
                following = next_after(schedule, following)
            return Preview(schedule, zone, tuple(times))

        return await asyncio.to_thread(plan)

    async def delete(self, profile: str, job_id: str) -> None:
        """Let a job run no more; a turn that is known to be under way goes on to its end, and one
        that nobody has noted yet is stopped."""
        now = self._clock.now()

        def delete(connection: sa.Connection) -> bool:
            if is_there := jobs.delete_job(connection, profile, job_id, now):
                runs.cancel_unbegun(connection, job_id, now)
            return is_there

        if not await self._database.write(delete, notify=stopping.CHANNEL):
            raise _not_found(job_id)

    async def runs(self, profile: str, job_id: str, limit: int) -> list[Run]:
        """Return a job's runs, the latest first, also of one that was deleted."""

        def read(connection: sa.Connection) -> list[Run]:
            stored = jobs.find_job(connection, job_id)
            if stored is None or stored.job.profile != profile:
                raise _not_found(job_id)
            return runs.list_runs(connection, job_id, limit)

        return await self._database.read(read)

    async def _check(self, request: JobRequest) -> None:
        """Refuse words that look like an attack, and jobs that there are none of."""
        await _check_words(self._agent, request)
        others = [each for each in request.options.context_job_ids if each != request.id]
        missing = partial(jobs.missing_jobs, profile=request.profile, job_ids=others)
        if others and (unknown := await self._database.read(missing)):
            problem = f"there is no job {', '.join(unknown)}"
            raise InvalidArgument(problem, fields={"options.context_job_ids": problem})

    def _zone(self, time_zone: str) -> str:
        return time_zone or self._time_zone or tzlocal.get_localzone_name()

    def _replanned(self, before: Job, request: JobRequest, *, anew: bool) -> Job:
        """The job as it is asked for by then."""
        now = self._clock.now()
        # Later than it was: it is what another change is told from this one by.
        at_least = before.updated_at or before.created_at
        changed = replace(
            before,
            name=request.name,
            prompt=request.prompt,
            origin=request.origin,
            sandbox_template=request.sandbox_template,
            unattended=request.unattended,
            options=request.options,
            denied=request.denied,
            updated_at=max(now, at_least + timedelta(microseconds=1)),
        )
        if anew:
            zone = zone_of(request.schedule, self._zone(request.time_zone))
            schedule = parse(request.schedule, zone, now)
            changed = replace(
                changed,
                schedule_text=request.schedule,
                time_zone=zone,
                schedule=schedule,
                run_count=0,
            )
        is_paused = before.state is JobState.PAUSED
        return replace(changed, next_run_at=None if is_paused else _following(changed, now))


def _planned(request: JobRequest, zone: Callable[[str], str], now: datetime) -> Job:
    time_zone = zone_of(request.schedule, zone(request.time_zone))
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
        state=JobState.PAUSED if request.is_paused else JobState.SCHEDULED,
        next_run_at=None if request.is_paused else next_after(schedule, now),
        created_at=now,
        sandbox_template=request.sandbox_template,
        unattended=request.unattended,
        options=request.options,
        denied=request.denied,
    )


async def _check_words(agent: Agent, request: JobRequest) -> None:
    # Where the agent is away: they are scanned before each run in any case.
    with contextlib.suppress(Unavailable):
        found = await agent.scan([request.prompt, request.name])
        for field, families in zip(("prompt", "name"), found, strict=True):
            if families:
                raise InvalidArgument(attack(families), fields={field: attack(families)})


def _following(job: Job, now: datetime) -> datetime | None:
    """When a job that is due from now on is due first; None if it never is."""
    if 0 < job.options.max_runs <= job.run_count:
        return None
    return next_after(job.schedule, now)


def _get(connection: sa.Connection, profile: str, job_id: str) -> Job:
    return _stored(connection, profile, job_id).job


def _stored(connection: sa.Connection, profile: str, job_id: str) -> StoredJob:
    stored = jobs.find_job(connection, job_id)
    if stored is None or stored.deleted or stored.job.profile != profile:
        raise _not_found(job_id)
    return stored


def _not_found(job_id: str) -> NotFound:
    return NotFound(f"there is no job {job_id}")
