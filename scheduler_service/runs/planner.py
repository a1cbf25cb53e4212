"""Decides when jobs run: sleeps until the next due time, claims due jobs, and starts their runs.

Any number of planners may share a database. Each claims a part of the due jobs, starts as many runs
as it has room for, and takes over the runs of a dead planner once their leases end.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from scheduler_service.jobs import Claim, Job, JobKind
from scheduler_service.runs.claim_loop import ClaimLoop
from scheduler_service.runs.metrics import SchedulerMetrics
from scheduler_service.runs.runner import Runner
from scheduler_service.schedule.misfires import DueAction, fire
from scheduler_service.storage import claims
from scheduler_service.storage.claims import CHANNEL, Holder
from services.clock import Clock
from services.database import Database
from services.database.leases import Lease
from services.lifecycle import Workers
from services.telemetry.logs import bind

_log = logging.getLogger(__name__)

_BATCH = 500
_SHORTEST_SLEEP_S = 0.001
# Another planner is claiming the due jobs right now.
_CONTENDED_SLEEP_S = 0.05


class Timing(Struct, frozen=True):
    """How late a run may be, and how long a planner sleeps."""

    grace: timedelta
    """A due time that is later than this is skipped."""
    sleep_s: float = 5.0
    """Shorter than a lease, to see expired leases and changes without a hint in time."""


class Planner:
    """Claims due runs of all profiles and starts them as workers."""

    def __init__(
        self,
        database: Database,
        runs: Runner,
        workers: Workers,
        *,
        holder: Holder,
        clock: Clock,
        timing: Timing,
        metrics: SchedulerMetrics,
    ) -> None:
        self._database = database
        self._runs = runs
        self._held = ClaimLoop(
            database, workers, holder=holder, clock=clock, channel=CHANNEL, what="run"
        )
        self._holder = holder
        self._clock = clock
        self._timing = timing
        self._metrics = metrics

    @property
    def leases(self) -> Collection[Lease]:
        return self._held.leases

    async def run(self) -> None:
        await self._held.run(self._advance, self._timing.sleep_s)

    async def drain(self) -> None:
        """Claim no more runs, and leave running ones to other planners; their turns go on."""
        await self._held.drain()

    async def _advance(self) -> float:
        """Do what is due now; return in how many seconds to look again."""
        outlook = await self._database.read(claims.look)
        now = self._clock.now()
        due_in_s = self._timing.sleep_s
        if outlook.next_due is not None:
            due_in_s = (outlook.next_due - now).total_seconds()
        abandoned_in_s = self._timing.sleep_s
        if outlook.abandoned_in_s is not None:
            abandoned_in_s = outlook.abandoned_in_s
        self._metrics.next_due(outlook.next_due and outlook.next_due.timestamp())
        is_unheld_wanted = outlook.is_any_unheld and self._room > 0
        if abandoned_in_s > 0 and due_in_s > 0 and not is_unheld_wanted:
            return max(_SHORTEST_SLEEP_S, min(due_in_s, abandoned_in_s, self._timing.sleep_s))
        found = await self._free_abandoned() if abandoned_in_s <= 0 else 0
        if due_in_s <= 0:
            found += await self._claim(now)
        elif (found or outlook.is_any_unheld) and self._room > 0:
            found += await self._take_up()
        return 0.0 if found else _CONTENDED_SLEEP_S

    @property
    def _room(self) -> int:
        return self._runs.room(len(self.leases))

    async def _free_abandoned(self) -> int:
        free = partial(claims.free_abandoned, limit=_BATCH)
        if count := await self._database.write(free, notify=CHANNEL):
            _log.info("%d runs are free, as their owners have not renewed their leases", count)
        return count

    async def _take_up(self) -> int:
        since = self._clock.monotonic()
        take = partial(claims.take_up, holder=self._holder, limit=min(_BATCH, self._room))
        taken = await self._database.write(take)
        self._start_all(taken, since)
        return len(taken)

    async def _claim(self, now: datetime) -> int:
        due = await self._database.read(partial(claims.due_jobs, now=now, limit=_BATCH))
        # In a thread: computing the next times of many jobs is slow.
        firings = await asyncio.to_thread(_firings, due, now, self._timing.grace)
        since = self._clock.monotonic()
        claim = partial(
            claims.claim,
            holder=self._holder,
            firings=firings,
            now=now,
            room=min(_BATCH, self._room),
        )
        claimed = await self._database.write(claim)
        self._start_all(claimed.runs, since)
        done_at = self._clock.now()
        for scheduled_for in claimed.due:
            self._metrics.claimed((done_at - scheduled_for).total_seconds())
        for policy in claimed.missed:
            self._metrics.missed(policy)
        if len(claimed.runs) < len(claimed.due):
            await self._database.notify(CHANNEL)
        return claimed.job_count

    def _start_all(self, claimed: Sequence[Claim], since: float) -> None:
        for claim in claimed:
            if claim.lease.epoch > 1 and claim.job.kind is JobKind.AGENT:
                _log.info("run %s of job %s is taken over", claim.run_id, claim.job.id)
            self._held.start(claim.lease, since, partial(self._work_on, claim))

    async def _work_on(self, claim: Claim) -> None:
        with bind(turn_id=claim.run_id, job_id=claim.job.id):
            await self._runs.run(claim)


def _firings(due: Sequence[Job], now: datetime, grace: timedelta) -> list[tuple[Job, DueAction]]:
    return [
        (job, fire(job.schedule, job.next_run_at, now, job.spec.options, grace, job.run_count))
        for job in due
        if job.next_run_at is not None
    ]
