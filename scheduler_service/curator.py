"""When the curator works: which profiles are due, and who of several schedulers works on each.

Any number of schedulers may share a database. A profile has at most one open run; who claims it
works on it, and when that one dies another takes it over and goes on from what is stored of it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TypeVar

import sqlalchemy as sa
from msgspec.structs import replace

from scheduler_service.curator_due import REFUSED, Due, Observer
from scheduler_service.curator_records import (
    CHANNEL,
    CuratorRun,
    Libraries,
    Order,
    Report,
    Settings,
)
from scheduler_service.errors import SkillsBusy
from scheduler_service.persistence import Persistence
from scheduler_service.storage import curator_runs
from scheduler_service.transitions import SkillState, transitions
from services.clock import Clock
from services.database import Database, DatabaseUnavailable, Hint
from services.errors import FailedPrecondition, ServiceUnavailable, StaleEpoch, Unavailable
from services.lease_keeper import LeaseKeeper
from services.leases import Fenced, Lease, LeaseTable, Owner
from services.lifecycle import Workers

LOOK_S = 3.0
"""How often open runs are looked for that nobody works on; shorter than their lease."""

_AT_ONCE = 4
_LONGEST_RETRY_S = 30.0

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Curator:
    """Works on runs of all profiles."""

    def __init__(
        self,
        database: Database,
        libraries: Libraries,
        workers: Workers,
        *,
        holder: tuple[Owner, LeaseTable],
        clock: Clock,
        settings: Settings,
        observer: Observer,
    ) -> None:
        self._database = database
        self._libraries = libraries
        self._workers = workers
        self._owner, self._leases = holder
        self._keeper = LeaseKeeper(database, self._leases, clock)
        self._clock = clock
        self._persist = Persistence(clock, _LONGEST_RETRY_S).until_answered
        self._settings = settings
        self._observer = observer
        self._hint = Hint()
        self._held: dict[Lease, asyncio.Task[None]] = {}
        self._looking = asyncio.Lock()
        self._draining = False
        self._due = Due(database, libraries, clock=clock, settings=settings, observer=observer)
        # A command that needs the scheduler for a moment is not to begin a run.
        self._next_check = clock.monotonic() + settings.first_check_s

    async def run(self) -> None:
        """Work until cancelled."""
        self._hint = hint = self._database.listen(CHANNEL)
        await self._persist(
            "the curator",
            partial(
                self._database.write, partial(self._leases.clear_earlier_boots, owner=self._owner)
            ),
        )
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._curate(hint), name="curator")
            parts.create_task(self._keeper.run(), name="curator leases")

    async def drain(self) -> None:
        """Begin nothing more, and leave what is under way to others."""
        async with self._looking:
            self._draining = True
        held = dict(self._held)
        for task in held.values():
            task.cancel()
        if held:
            await asyncio.wait(held.values())
            await self._database.write(partial(self._let_go, held=list(held)), notify=CHANNEL)

    async def _curate(self, hint: Hint) -> None:
        while True:
            # Not with the lock: who drains is not to wait for an agent that hangs. A run that is
            # stored meanwhile is there for others.
            if not self._draining and self._clock.monotonic() >= self._next_check:
                self._next_check = self._clock.monotonic() + self._settings.check_s
                await self._due.begin()
            async with self._looking:
                if not self._draining:
                    await self._look()
            await hint.wait(min(LOOK_S, self._settings.check_s))

    async def _look(self) -> None:
        try:
            since = self._clock.monotonic()
            take = partial(
                curator_runs.take,
                leases=self._leases,
                owner=self._owner,
                limit=_AT_ONCE - len(self._held),
            )
            for lease, run in await self._database.write(take):
                self._start(lease, run, since)
        except DatabaseUnavailable as error:
            _log.warning("cannot look for the curator's runs: %s", error)

    def _start(self, lease: Lease, run: CuratorRun, since: float) -> None:
        task = self._workers.start(f"curator run {run.id}", self._work_on(lease, run))
        self._held[lease] = task
        self._keeper.hold(lease, since, on_lost=task.cancel)
        task.add_done_callback(lambda _: self._ended(lease))

    def _ended(self, lease: Lease) -> None:
        self._keeper.drop(lease)
        del self._held[lease]
        # Another one may have waited for this.
        self._hint.give()

    def _let_go(self, connection: sa.Connection, held: list[Lease]) -> None:
        for lease in held:
            try:
                self._leases.release(connection, lease)
            except Fenced:
                _log.info("%s was taken over meanwhile", lease.id)

    async def _work_on(self, lease: Lease, run: CuratorRun) -> None:
        try:
            async with AsyncExitStack() as held:
                hold = partial(self._hold, held, run.profile)
                await self._persist(run.id, self._telling(lease, hold))
                outcome: Report | str = await self._outcome(lease, run)
        except Fenced as error:
            _log.info("%s", error)
            return
        except (StaleEpoch, *REFUSED) as error:
            outcome = str(error)
        close = partial(
            curator_runs.close_run,
            leases=self._leases,
            lease=lease,
            outcome=outcome,
            now=self._clock.now(),
        )
        try:
            await self._persist(run.id, partial(self._database.write, close))
        except Fenced as error:
            _log.info("%s", error)
            return
        if isinstance(outcome, str):
            _log.warning("the curator's run %s of %s failed: %s", run.id, run.profile, outcome)
        else:
            self._observer.done(outcome)
            _log.info("the curator's run %s of %s: %s", run.id, run.profile, outcome.summary)

    async def _outcome(self, lease: Lease, run: CuratorRun) -> Report:
        libraries, profile = self._libraries, run.profile
        if run.plan is None and not run.dry_run:
            await self._persist(run.id, partial(_check_undone, libraries, run))
        of_jobs = await self._persist(
            run.id,
            partial(self._database.read, partial(curator_runs.skills_of_jobs, profile=profile)),
        )
        skills = await self._persist(
            run.id, self._telling(lease, partial(libraries.skills, profile))
        )
        found = transitions(skills, of_jobs, self._clock.now(), self._settings.ages)
        if run.plan is None:
            gone = {each.name for each in found if each.to is SkillState.ARCHIVED}
            plan, failure = await self._plan(lease, run, gone, of_jobs)
            keep = partial(
                curator_runs.keep_plan,
                leases=self._leases,
                lease=lease,
                plan=plan,
                failure=failure,
            )
            await self._persist(run.id, partial(self._database.write, keep))
            run = replace(run, plan=plan, plan_failure=failure)
        used = {skill.name: skill.last_active_at for skill in skills}
        order = Order(
            run, lease.epoch, found, {each.name: used[each.name] for each in found}, of_jobs
        )
        return await self._persist(run.id, self._telling(lease, partial(self._apply, lease, order)))

    async def _hold(self, held: AsyncExitStack, profile: str) -> None:
        """Keep others from the skills; Unavailable where somebody, who may hang, is at work."""
        try:
            await held.enter_async_context(self._libraries.held(profile))
        except SkillsBusy as error:
            raise ServiceUnavailable(str(error)) from error

    async def _apply(self, lease: Lease, order: Order) -> Report:
        # A model may have thought for minutes: jobs may use other skills by now, and who stood
        # still may have been taken over and not know it yet.
        still = partial(
            curator_runs.skills_of_jobs_held,
            leases=self._leases,
            lease=lease,
            profile=order.run.profile,
        )
        order = replace(order, of_jobs=await self._database.write(still))
        return await self._libraries.apply(order)

    async def _plan(
        self, lease: Lease, run: CuratorRun, gone: set[str], of_jobs: frozenset[str]
    ) -> tuple[str, str]:
        """What a model wants consolidated, and why nothing is where it was not to be asked."""
        ask = partial(self._libraries.plan, run.profile, gone, of_jobs)
        try:
            plan = await self._persist(run.id, self._telling(lease, ask))
            # PostgreSQL stores none of these, and a plan that is not stored is paid for again.
            return plan.replace("\0", "\ufffd"), ""
        except REFUSED as error:
            return "", str(error)

    def _telling(
        self, lease: Lease, call: Callable[[], Awaitable[_T]]
    ) -> Callable[[], Awaitable[_T]]:
        """The call, which leaves with the run why it could not be made, for people."""
        told = ""

        async def tell(reason: str) -> None:
            nonlocal told
            keep = partial(curator_runs.keep_reason, leases=self._leases, lease=lease)
            if reason != told:
                await self._database.write(partial(keep, reason=reason))
                told = reason

        async def make() -> _T:
            try:
                return await call()
            except Unavailable as error:
                await tell(error.message)
                raise

        return make


async def _check_undone(libraries: Libraries, run: CuratorRun) -> None:
    """Raise FailedPrecondition where the scheduler of another database has done it meanwhile."""
    for curation in await libraries.curations(run.profile):
        last = curation.last_run_at if curation.profile == run.profile else None
        if last is not None and last > run.created_at:
            raise FailedPrecondition(
                "another Hermes has looked after these skills since this was begun"
            )
