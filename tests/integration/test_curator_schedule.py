"""When the curator begins, and that one of several schedulers does, on a real database."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from scheduler_service import curator_records
from scheduler_service.curation_lock import CurationLocks
from scheduler_service.curator import Curator
from scheduler_service.curator_metrics import CuratorMetrics
from scheduler_service.curator_records import (
    CHANNEL,
    Curation,
    CuratorRun,
    Done,
    Order,
    Report,
    RunState,
    Settings,
)
from scheduler_service.options import JobOptions
from scheduler_service.storage import curator_runs, jobs
from scheduler_service.storage.schema import metadata
from scheduler_service.transitions import SkillState, SkillUse
from services.clock import SystemClock
from services.database import Database
from services.errors import (
    FailedPrecondition,
    HermesError,
    ServiceUnavailable,
)
from services.home import HomePaths
from services.ids import new_id
from services.leases import new_owner
from services.lifecycle import Workers
from services.metrics import Meter
from tests.integration.test_scheduler_storage import job_of

SOON = Settings(first_check_s=0.0, check_s=0.1)
HOUR = timedelta(hours=1)


NO_LOCKS = CurationLocks(HomePaths(Path("/nonexistent"), Path("/nonexistent")))


class Libraries:
    """Libraries that are scripted, as the agent serves them."""

    def __init__(self, *curations: Curation, locks: CurationLocks = NO_LOCKS) -> None:
        self.held = locks.held
        self.known = {each.profile: each for each in curations}
        self.begun: list[str] = []
        self.orders: list[Order] = []
        self.jobs_told: list[set[str]] = []
        self.asked: Counter[str] = Counter()
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.failure: HermesError | None = None
        self.away = ""
        self.answer = "a plan"

    async def curations(self, profile: str = "") -> Sequence[Curation]:
        return list(self.known.values())

    async def begin(self, profile: str) -> None:
        self.begun.append(profile)
        self.known[profile] = replace(self.known[profile], last_run_at=datetime.now(UTC))

    async def skills(self, profile: str) -> Sequence[SkillUse]:
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        return [SkillUse("old", SkillState.STALE, False, long_ago, long_ago)]

    async def plan(self, profile: str, left_out: Collection[str], jobs: Collection[str]) -> str:
        self.asked[profile] += 1
        self.jobs_told.append(set(jobs))
        self.is_asked.set()
        await self.may_answer.wait()
        return self.answer

    async def apply(self, order: Order) -> Report:
        if self.failure is not None:
            raise self.failure
        if self.away:
            raise ServiceUnavailable(self.away)
        self.orders.append(order)
        profile = order.run.profile
        self.known[profile] = replace(self.known[profile], last_run_at=datetime.now(UTC))
        done = Done("archived", "old")
        return Report(order.run.id, datetime.now(UTC), "done", changes=(done,))


def curation(profile: str = "default", **more: Any) -> Curation:
    """One that is due."""
    due = Curation(
        profile=profile,
        is_paused=False,
        last_run_at=datetime.now(UTC) - 169 * HOUR,
        run_count=1,
        last_summary="",
        last_report_path="",
        idle_since=datetime.now(UTC) - 3 * HOUR,
        is_busy=False,
    )
    return replace(due, **more)


def curator(
    database: Database,
    libraries: curator_records.Libraries,
    workers: Workers,
    metrics: CuratorMetrics,
    settings: Settings = SOON,
    lease_s: float = 1.5,
) -> Curator:
    """One of a scheduler."""
    return Curator(
        database,
        libraries,
        workers,
        holder=(new_owner(new_id("test")), curator_runs.run_leases(lease_s)),
        clock=SystemClock(),
        settings=settings,
        observer=metrics,
    )


@asynccontextmanager
async def schedulers(
    database: Database,
    libraries: curator_records.Libraries,
    count: int = 1,
    settings: Settings = SOON,
    lease_s: float = 1.5,
) -> AsyncGenerator[CollectorRegistry]:
    """Some curators on one database."""
    await database.migrate(metadata.create_all)
    registry = CollectorRegistry()
    metrics = CuratorMetrics.create(Meter(registry))
    async with Workers() as workers:
        curators = [
            curator(database, libraries, workers, metrics, settings, lease_s) for _ in range(count)
        ]
        tasks = [asyncio.create_task(one.run()) for one in curators]
        yield registry
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def runs(database: Database, profile: str = "default") -> list[CuratorRun]:
    return await database.read(partial(curator_runs.list_runs, profile=profile, limit=100))


async def ended(database: Database, count: int = 1, profile: str = "default") -> list[CuratorRun]:
    """The runs of a profile, once so many have ended."""
    async with asyncio.timeout(20):
        while sum(run.finished_at is not None for run in await runs(database, profile)) < count:  # noqa: ASYNC110 - rows change without an event
            await asyncio.sleep(0.02)
    return await runs(database, profile)


async def test_of_many_schedulers_one_works_on_each_profile_once(database: Database) -> None:
    libraries = Libraries(curation(), curation("ann"), curation("bob", is_paused=True))
    # Long, so that nobody is taken over who only waits for a processor.
    async with schedulers(database, libraries, 4, lease_s=30) as registry:
        await ended(database)
        await ended(database, profile="ann")
        await asyncio.sleep(0.5)
        assert sorted(order.run.profile for order in libraries.orders) == ["ann", "default"]
        assert libraries.asked == {"ann": 1, "default": 1}
        assert await runs(database, "bob") == []
        (order, _) = libraries.orders
        assert [each.name for each in order.transitions] == ["old"]
        assert order.run.plan == "a plan"
        value = registry.get_sample_value
        assert value("hermes_curator_transitions_total", {"to": "archived"}) == 2
        latest = value("hermes_curator_last_run_timestamp_seconds")
        assert latest is not None
        assert abs(latest - datetime.now(UTC).timestamp()) < 60


async def test_it_works_on_a_few_profiles_at_a_time(database: Database) -> None:
    profiles = [f"p{number}" for number in range(12)]
    libraries = Libraries(*map(curation, profiles))
    libraries.may_answer.clear()
    # Looks that nothing hints at come as often.
    often = replace(SOON, check_s=0.05)
    async with schedulers(database, libraries, settings=often):
        while sum(map(len, [await runs(database, each) for each in profiles])) < 12:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await asyncio.sleep(1)
        assert len(libraries.asked) == 4
        libraries.may_answer.set()
        for profile in profiles:
            await ended(database, profile=profile)


@pytest.mark.parametrize(
    "more",
    [
        {"last_run_at": datetime.now(UTC) - 167 * HOUR},
        {"idle_since": datetime.now(UTC) - HOUR},
        {"is_busy": True},
        {"is_paused": True},
    ],
)
async def test_it_waits_for_its_time(database: Database, more: dict[str, Any]) -> None:
    libraries = Libraries(curation(**more))
    async with schedulers(database, libraries):
        await asyncio.sleep(0.5)
        assert await runs(database) == []


async def test_the_first_check_only_records_the_time(database: Database) -> None:
    libraries = Libraries(curation(last_run_at=None))
    async with schedulers(database, libraries):
        await asyncio.sleep(0.5)
        assert libraries.begun == ["default"]
        assert await runs(database) == []


async def test_switched_off_it_does_only_what_it_is_asked_for(database: Database) -> None:
    libraries = Libraries(curation())
    async with schedulers(database, libraries, settings=replace(SOON, is_enabled=False)):
        await asyncio.sleep(0.5)
        assert await runs(database) == []
        insert = partial(
            curator_runs.insert_run,
            run_id="asked",
            profile="default",
            now=datetime.now(UTC),
            dry_run=False,
        )
        assert await database.write(insert, notify=CHANNEL)
        (run,) = await ended(database)
        assert (run.id, run.state) == ("asked", RunState.SUCCEEDED)


async def test_a_run_is_taken_over_with_the_plan_that_is_paid(database: Database) -> None:
    libraries = Libraries(curation())
    libraries.may_answer.clear()
    async with schedulers(database, libraries):
        async with asyncio.timeout(10):
            while not libraries.asked:  # noqa: ASYNC110 - the fake counts without an event
                await asyncio.sleep(0.02)
    # The first died before there was an answer; the second asks again and dies after it.
    libraries.may_answer.set()
    blocked = Libraries(curation())
    blocked.apply = _never  # type: ignore[method-assign]
    async with schedulers(database, blocked):
        async with asyncio.timeout(20):
            while (await runs(database))[0].plan is None:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.02)
    last = Libraries(curation())
    async with schedulers(database, last):
        (run,) = await ended(database)
        assert run.state is RunState.SUCCEEDED
        assert (last.asked, len(last.orders)) == (Counter(), 1)


async def test_a_plan_with_a_zero_byte_is_asked_for_once(database: Database) -> None:
    libraries = Libraries(curation())
    libraries.answer = "a\0plan"
    async with schedulers(database, libraries, lease_s=30):
        (run,) = await ended(database)
    assert (run.state, run.plan) == (RunState.SUCCEEDED, "a\ufffdplan")
    assert libraries.asked == {"default": 1}


async def uses_old(database: Database) -> None:
    """Have a job use the skill that there is."""
    job = replace(job_of(1), options=JobOptions(skills=("old",)))
    await database.write(partial(jobs.insert_job, new=job, request_digest=""))


async def test_a_skill_that_a_job_uses_does_not_grow_old(database: Database) -> None:
    libraries = Libraries(curation())
    await database.migrate(metadata.create_all)
    await uses_old(database)
    async with schedulers(database, libraries):
        await ended(database)
    (order,) = libraries.orders
    assert (list(order.transitions), order.of_jobs) == ([], {"old"})
    assert libraries.jobs_told == [{"old"}]


async def test_a_job_that_is_made_while_the_model_thinks_keeps_its_skill(
    database: Database,
) -> None:
    libraries = Libraries(curation())
    libraries.may_answer.clear()
    async with schedulers(database, libraries):
        async with asyncio.timeout(20):
            await libraries.is_asked.wait()
        await uses_old(database)
        libraries.may_answer.set()
        await ended(database)
    (order,) = libraries.orders
    # The library refuses what is asked for of a skill that is among these.
    assert ([each.name for each in order.transitions], order.of_jobs) == (["old"], {"old"})


async def _never(order: Order) -> Report:
    await asyncio.Event().wait()
    raise AssertionError(order)


async def test_a_run_that_waits_says_what_for_until_it_has_ended(database: Database) -> None:
    libraries = Libraries(curation())
    libraries.away = "the library is held by another program"
    async with schedulers(database, libraries):
        async with asyncio.timeout(20):
            while not (found := await runs(database)) or not found[0].error:  # noqa: ASYNC110 - rows change without an event
                await asyncio.sleep(0.02)
        assert (found[0].state, found[0].error) == (RunState.OPEN, libraries.away)
        libraries.away = ""
        (run,) = await ended(database)
        assert (run.state, run.error) == (RunState.SUCCEEDED, "")


async def test_after_a_failed_run_it_rests(database: Database) -> None:
    libraries = Libraries(curation())
    libraries.failure = FailedPrecondition("the library cannot be backed up")
    async with schedulers(database, libraries):
        (run,) = await ended(database)
        assert (run.state, run.error) == (RunState.FAILED, str(libraries.failure))
        await asyncio.sleep(0.5)
        assert len(await runs(database)) == 1


async def test_what_one_library_says_of_itself_holds_up_no_other(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    last = datetime.max.replace(tzinfo=UTC)
    bad = [curation("high", epoch=2**63 - 1), curation("late", last_run_at=last)]
    async with schedulers(database, Libraries(*bad, curation())):
        (run,) = await ended(database)
        assert run.state is RunState.SUCCEEDED
    for each in bad:
        assert await runs(database, each.profile) == []
    assert "the skills of high are not looked after: " in caplog.text


class Hanging(Libraries):
    """An agent that does not answer."""

    async def curations(self, profile: str = "") -> Sequence[Curation]:
        self.is_asked.set()
        await asyncio.Event().wait()
        raise AssertionError(profile)


async def test_who_drains_does_not_wait_for_an_agent_that_hangs(sqlite_url: str) -> None:
    libraries = Hanging()
    metrics = CuratorMetrics.create(Meter(CollectorRegistry()))
    async with Database(sqlite_url, "test") as database, Workers() as workers:
        await database.migrate(metadata.create_all)
        one = curator(database, libraries, workers, metrics)
        running = asyncio.create_task(one.run())
        await libraries.is_asked.wait()
        async with asyncio.timeout(5):
            await one.drain()
        assert not running.done(), "it still waits for the agent"
        running.cancel()
        await asyncio.wait([running])
