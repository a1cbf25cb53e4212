"""Creates, finds, changes, pauses, runs and deletes the jobs of each profile."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from functools import partial

import sqlalchemy as sa
from msgspec import Struct, json
from msgspec.structs import replace

from hermes.scheduler.v1 import schedule_pb2
from scheduler_service.clients import AgentClient
from scheduler_service.errors import attack
from scheduler_service.home.profiles import ZoneOf
from scheduler_service.jobs import (
    Job,
    JobKind,
    JobSpec,
    JobState,
    Run,
    next_run_of,
    planned,
    replanned,
    without_secrets,
)
from scheduler_service.runs import stopper as stopping
from scheduler_service.schedule.schedule import next_after, parse, zone_of
from scheduler_service.storage import jobs, runs
from scheduler_service.storage.claims import CHANNEL
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
from services.redaction.redactor import Redactor
from services.rpc.messages import message_of

_WATCH_S = 0.25
"""The polling interval of a watched run, which any replica may change."""


class JobCatalog(Struct, frozen=True):
    """Jobs of all profiles; each profile sees only its own."""

    database: Database
    clock: Clock
    zone_of_profile: ZoneOf
    """Gives the default time zone of a profile's schedules."""
    agent: AgentClient
    redactor: Redactor

    async def create(
        self, profile: str, job_id: str, spec: JobSpec, *, is_paused: bool = False
    ) -> Job:
        """Store a job, or return it if the same request came before."""
        # Without denied commands: they may have changed since the first request, whose job stays.
        asked = json.encode((profile, replace(spec, denied_commands=()), is_paused))
        digest = hashlib.sha256(asked).hexdigest()
        # Before parsing: on a retry, "2026-03-01T09:00" may be in the past.
        stored = await self.database.read(partial(jobs.find_job, job_id=job_id))
        if stored is None:
            clean = without_secrets(spec, self.redactor)
            await self._check(profile, job_id, clean)
            zone = clean.time_zone or await self._zone(profile)
            now = self.clock.now()
            job = await asyncio.to_thread(planned, job_id, profile, clean, zone, now)
            if is_paused:
                job = replace(job, state=JobState.PAUSED, next_run_at=None)
            insert = partial(jobs.insert_job, new=job, request_digest=digest)
            stored = await self.database.write(insert, notify=CHANNEL)
        if stored.deleted or stored.request_digest != digest:
            raise AlreadyExists(f"the job id {job_id} was used before for another job")
        return stored.job

    async def get(self, profile: str, job_id: str) -> Job:
        """Return a job; one of another profile is not found."""
        return await self.database.read(partial(_get, profile=profile, job_id=job_id))

    async def page(
        self, profile: str, limit: int, after: Position | None
    ) -> tuple[list[Job], Position | None]:
        """Return a page of jobs, next due first, and the position of its end if there are more."""
        found = await self.database.read(
            partial(jobs.list_jobs, profile=profile, limit=limit + 1, after=after)
        )
        page = found[:limit]
        more = len(found) > limit
        return [job for job, _ in page], page[-1][1] if more else None

    async def update(
        self,
        profile: str,
        job_id: str,
        change: Callable[[Job], JobSpec],
        *,
        anew: bool,
        update_id: str = "",
    ) -> Job:
        """Store a changed job; a repeated `update_id` does nothing if it was the latest change.

        `anew` parses its schedule as if written now.
        """
        find = partial(_stored, profile=profile, job_id=job_id)
        while True:
            stored = await self.database.read(find)
            before = stored.job
            if update_id and stored.update_id == update_id:
                return before
            spec = without_secrets(change(before), self.redactor)
            await self._check(profile, job_id, spec)
            zone = spec.time_zone or await self._zone(profile)
            now = self.clock.now()
            changed = await asyncio.to_thread(replanned, before, spec, zone, now, anew=anew)
            asked, old = changed.spec.options, before.spec.options
            store = partial(
                jobs.update_job,
                changed=changed,
                before=before,
                is_rescheduled=anew
                or changed.schedule != before.schedule
                or asked.max_runs != old.max_runs,
                update_id=update_id,
            )
            if asked.budget != old.budget:
                await self.agent.limit(changed)
            # Retry if the job was changed meanwhile.
            if await self.database.write(store, notify=CHANNEL):
                return await self.get(profile, job_id)

    async def pause(self, profile: str, job_id: str) -> Job:
        """Pause a job until it is resumed; requested runs stay possible."""
        now = self.clock.now()

        def write(connection: sa.Connection) -> Job:
            _get(connection, profile, job_id)
            if jobs.pause_job(connection, job_id, now):
                runs.cancel_unbegun(connection, job_id, now, is_paused=True)
            return _get(connection, profile, job_id)

        return await self.database.write(write, notify=stopping.CHANNEL)

    async def resume(self, profile: str, job_id: str) -> Job:
        now = self.clock.now()
        paused = await self.get(profile, job_id)
        if paused.state is JobState.SCHEDULED:
            return paused
        next_run_at = await asyncio.to_thread(next_run_of, paused, now)
        if next_run_at is None:
            raise FailedPrecondition(
                f"job {job_id} has no due time any more; give it another schedule, or run it now"
            )

        def write(connection: sa.Connection) -> Job:
            jobs.lock_jobs(connection, [job_id])
            spec = _get(connection, profile, job_id).spec
            spec = replace(spec, pause_reason="")
            jobs.resume_job(connection, job_id, spec, next_run_at, now)
            return _get(connection, profile, job_id)

        return await self.database.write(write, notify=CHANNEL)

    async def run_now(self, profile: str, job_id: str, run_id: str) -> Run:
        """Run a job once now; a repeated request returns the same run."""
        now = self.clock.now()

        def write(connection: sa.Connection) -> Run:
            jobs.lock_jobs(connection, [job_id])
            job = _get(connection, profile, job_id)
            requested = runs.request_run(connection, job, run_id, now)
            if requested.job_id != job_id:
                raise AlreadyExists(f"the run id {run_id} was used before for another run")
            return requested

        return await self.database.write(write, notify=CHANNEL)

    async def run(self, profile: str, run_id: str) -> Run:
        """Return a run, also of a deleted job; one of another profile is not found."""

        def read(connection: sa.Connection) -> Run:
            found = runs.find_run(connection, run_id)
            job = None if found is None else jobs.find_job(connection, found.job_id)
            if found is None or job is None or not _is_of(job.job, profile):
                raise NotFound(f"there is no run {run_id}")
            return found

        return await self.database.read(read)

    async def watch(self, profile: str, run_id: str) -> AsyncGenerator[Run]:
        """Yield a run now and after each change, until it has ended."""
        shown: Run | None = None
        while shown is None or shown.finished_at is None:
            run = await self.run(profile, run_id)
            if run != shown:
                shown = run
                yield run
            else:
                await self.clock.sleep(_WATCH_S)

    async def preview(
        self, profile: str, text: str, time_zone: str, count: int
    ) -> schedule_pb2.PreviewScheduleResponse:
        """Return the next due times of a schedule in a profile."""
        now = self.clock.now()

        def plan() -> schedule_pb2.PreviewScheduleResponse:
            zone = zone_of(text, time_zone or self.zone_of_profile(profile))
            schedule = parse(text, zone, now)
            times: list[datetime] = []
            at = next_after(schedule, now)
            while at is not None and len(times) < count:
                times.append(at)
                at = next_after(schedule, at)
            values = {"kind": schedule.kind, "time_zone": zone, "due_times": times}
            return message_of(values, schedule_pb2.PreviewScheduleResponse)

        return await asyncio.to_thread(plan)

    async def delete(self, profile: str, job_id: str) -> None:
        """Delete a job; running turns go on, and turns that may have started unnoticed are
        stopped."""
        now = self.clock.now()

        def delete(connection: sa.Connection) -> bool:
            if is_there := jobs.delete_job(connection, profile, job_id, now):
                runs.cancel_unbegun(connection, job_id, now)
            return is_there

        if not await self.database.write(delete, notify=stopping.CHANNEL):
            raise _not_found(job_id)

    async def runs(self, profile: str, job_id: str, limit: int) -> list[Run]:
        """Return a job's runs, newest first, also of a deleted job."""

        def read(connection: sa.Connection) -> list[Run]:
            stored = jobs.find_job(connection, job_id)
            if stored is None or not _is_of(stored.job, profile):
                raise _not_found(job_id)
            return runs.list_runs(connection, job_id, limit)

        return await self.database.read(read)

    async def _check(self, profile: str, job_id: str, spec: JobSpec) -> None:
        await _check_words(self.agent, spec)
        others = [each for each in spec.options.context_job_ids if each != job_id]
        missing = partial(jobs.missing_jobs, profile=profile, job_ids=others)
        if others and (unknown := await self.database.read(missing)):
            problem = f"there is no job {', '.join(unknown)}"
            raise InvalidArgument(problem, fields={"options.context_job_ids": problem})

    async def _zone(self, profile: str) -> str:
        return await asyncio.to_thread(self.zone_of_profile, profile)


async def _check_words(agent: AgentClient, spec: JobSpec) -> None:
    # If the agent is away, the scan before each run still protects.
    with contextlib.suppress(Unavailable):
        found = await agent.scan([spec.prompt, spec.name])
        for field, families in zip(("prompt", "name"), found, strict=True):
            if families:
                raise InvalidArgument(attack(families), fields={field: attack(families)})


def _get(connection: sa.Connection, profile: str, job_id: str) -> Job:
    return _stored(connection, profile, job_id).job


def _stored(connection: sa.Connection, profile: str, job_id: str) -> StoredJob:
    stored = jobs.find_job(connection, job_id)
    if stored is None or stored.deleted or not _is_of(stored.job, profile):
        raise _not_found(job_id)
    return stored


def _is_of(job: Job, profile: str) -> bool:
    return job.profile == profile and job.kind is JobKind.AGENT


def _not_found(job_id: str) -> NotFound:
    return NotFound(f"there is no job {job_id}")
