"""Runs of the curator, and their automatic start."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from scheduler_service.clients import CurationClient
from scheduler_service.config import CuratorConfig
from scheduler_service.curation import Curation, Report
from scheduler_service.errors import CallRefused
from scheduler_service.jobs import Claim, RunState
from scheduler_service.runs.metrics import CuratorMetrics
from scheduler_service.storage import curation, runs
from scheduler_service.storage.claims import CHANNEL
from services.clock import Clock
from services.database import Database
from services.database.leases import Fenced, LeaseTable
from services.database.queue import poll
from services.database.retries import until_answered
from services.errors import FailedPrecondition, NotFound, StaleEpoch, Unavailable
from services.ids import new_id

REFUSED = (CallRefused, NotFound, FailedPrecondition, StaleEpoch)
"""Errors that a retry cannot fix."""
_LONGEST_RETRY_S = 30.0

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class CuratorRuns(Struct, frozen=True):
    """Works on claimed runs: the model makes a plan, which is then applied as a whole."""

    database: Database
    libraries: CurationClient
    leases: LeaseTable
    clock: Clock
    metrics: CuratorMetrics

    async def work(self, claim: Claim) -> Claim:
        """Work on a run up to its delivery; raises Fenced."""
        try:
            report = await self._report(claim)
        except Fenced:
            raise
        except REFUSED as error:
            _log.warning("run %s of the curator failed: %s", claim.run_id, error)
            failed = replace(claim, state=RunState.DELIVERING, error=str(error))
            end = partial(runs.save, leases=self.leases, claim=failed)
            await self._call(claim, partial(self.database.write, end))
            return failed
        end = partial(
            curation.end_run, leases=self.leases, claim=claim, report=report, now=self.clock.now()
        )
        ended = await self._call(claim, partial(self.database.write, end))
        self.metrics.count(report)
        _log.info("run %s of the curator: %s", claim.run_id, report.summary)
        return ended

    async def _report(self, claim: Claim) -> Report:
        profile = claim.job.profile
        read = partial(curation.skills_of_jobs, profile=profile)
        of_jobs = await self._call(claim, partial(self.database.read, read))
        try:
            ask = partial(self.libraries.plan, profile, of_jobs)
            plan, failure = await self._call(claim, ask), ""
        except (CallRefused, FailedPrecondition) as error:
            plan, failure = "", str(error)
        return await self._call(claim, partial(self._apply, claim, plan, failure))

    async def _apply(self, claim: Claim, plan: str, failure: str) -> Report:
        # Check again: while the model thought, jobs or the owner of this run may have changed.
        read = partial(curation.skills_of_jobs_held, leases=self.leases, claim=claim)
        job_skills = await self.database.write(read)
        return await self.libraries.apply(claim, job_skills, plan, failure)

    async def _call(self, claim: Claim, call: Callable[[], Awaitable[_T]]) -> _T:
        """Retry a call until it succeeds, and record the reason for waiting in the run."""
        noted = ""

        async def make() -> _T:
            nonlocal noted
            try:
                return await call()
            except Unavailable as error:
                if error.message != noted:
                    waits = replace(claim, error=error.message)
                    note = partial(runs.save, leases=self.leases, claim=waits)
                    await self.database.write(note)
                    noted = error.message
                raise

        return await until_answered(self.clock, f"run {claim.run_id}", make, _LONGEST_RETRY_S)


FIRST_CHECK_S = 10.0
"""After the start, so that a short-lived scheduler of a command begins no run."""
CHECK_S = 60.0
"""The interval between checks of all profiles."""


class CuratorTimer:
    """Begins runs for profiles that are due; any number of timers may share a database."""

    def __init__(
        self,
        database: Database,
        libraries: CurationClient,
        *,
        clock: Clock,
        config: CuratorConfig,
        metrics: CuratorMetrics,
        first_check_s: float = FIRST_CHECK_S,
        check_s: float = CHECK_S,
    ) -> None:
        self._database = database
        self._libraries = libraries
        self._clock = clock
        self._config = config
        self._first_check_s, self._check_s = first_check_s, check_s
        self._metrics = metrics
        self._draining = False
        self._complaints: dict[str, str] = {}
        """Logged problems by profile; the empty key is for all profiles."""

    async def run(self) -> None:
        await self._clock.sleep(self._first_check_s)
        await poll("the curator", self._look, retry_s=self._check_s)

    async def _look(self) -> float:
        if not self._draining:
            await self.check()
        return self._check_s

    async def drain(self) -> None:
        self._draining = True

    async def check(self) -> None:
        """Begin runs for profiles that are due; a failure in one does not affect the others."""
        try:
            curations = await self._libraries.curations()
        except (Unavailable, *REFUSED) as error:
            self._complain("", f"the curator cannot see the libraries of skills: {error}")
            return
        self._complain("", "")
        times = [each.last_run_time.timestamp() for each in curations if each.last_run_time]
        self._metrics.last_run.set(max(times, default=0))
        for each in curations:
            try:
                await self._begin_if_due(each)
            except (Unavailable, *REFUSED) as error:
                why = f"the curator cannot run for profile {each.profile}: {error}"
                self._complain(each.profile, why)
            else:
                self._complain(each.profile, "")

    async def _begin_if_due(self, found: Curation) -> None:
        if found.last_run_time is None and self._config.enabled:
            await self._libraries.update(found.profile, begins=True)
        now, due = self._clock.now(), found.next_run_at(self._config)
        if due is None or due > now or found.is_busy:
            return
        begin = partial(curation.begin, found=found, run_id=new_id("cur"), now=now, due=due)
        await self._database.write(begin, notify=CHANNEL)

    def _complain(self, profile: str, why: str) -> None:
        if why and self._complaints.get(profile) != why:
            _log.warning("%s", why)
        self._complaints[profile] = why
