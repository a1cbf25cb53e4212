"""When the curator begins, that one of several schedulers does, and what jobs are told of it."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, cast

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from hermes.scheduler.v1 import curator_pb2
from scheduler_service.clients import CurationClient
from scheduler_service.config import CuratorConfig
from scheduler_service.curation import Change, Curation, Report
from scheduler_service.jobs import Claim, JobSpec, Run, RunState
from scheduler_service.options import JobOptions
from scheduler_service.runs.curator import CuratorRuns, CuratorTimer
from scheduler_service.runs.metrics import CuratorMetrics, SchedulerMetrics
from scheduler_service.runs.planner import Planner, Timing
from scheduler_service.runs.runner import Runner, RunServices
from scheduler_service.servicer.curator import CuratorServicer
from scheduler_service.storage import curation as stored
from scheduler_service.storage import jobs
from scheduler_service.storage import runs as stored_runs
from scheduler_service.storage.claims import Holder, run_leases
from scheduler_service.storage.schema import metadata
from services.clock import SystemClock
from services.database import Database
from services.database.leases import new_owner
from services.errors import (
    AlreadyExists,
    FailedPrecondition,
    HermesError,
    ServiceUnavailable,
    StaleEpoch,
)
from services.ids import new_id
from services.lifecycle import Workers
from services.telemetry.metrics import Meter
from tests.integration.test_scheduler_storage import job_of
from tests.support.executors import until

ON, OFF = CuratorConfig(), CuratorConfig(enabled=False)
HOUR = timedelta(hours=1)


def due(profile: str = "default", **more: Any) -> Curation:
    now = datetime.now(UTC)
    found = Curation(profile, last_run_time=now - 169 * HOUR, idle_since=now - 3 * HOUR)
    return replace(found, **more)


class Order(NamedTuple):
    """What the agent was asked to do to a library."""

    profile: str
    epoch: int
    job_skills: Collection[str]
    plan: str
    dry_run: bool


class Libraries(CurationClient):
    """Libraries that are scripted, as the agent serves them."""

    def __init__(self, *curations: Curation) -> None:
        super().__init__(cast("Any", None), ON)
        self.known = {each.profile: each for each in curations}
        self.begun: list[str] = []
        self.looks = 0
        self.orders: list[Order] = []
        self.asked: Counter[str] = Counter()
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.failure: HermesError | None = None
        self.restored: list[tuple[str, str]] = []

    async def curations(self, profile: str = "") -> Sequence[Curation]:
        self.looks += 1
        return [each for each in self.known.values() if profile in ("", each.profile)]

    async def update(
        self, profile: str, *, is_paused: bool | None = None, begins: bool = False
    ) -> None:
        self.begun.append(profile)
        self.known[profile] = replace(self.known[profile], last_run_time=datetime.now(UTC))

    async def plan(self, profile: str, job_skills: Collection[str]) -> str:
        self.asked[profile] += 1
        self.is_asked.set()
        await self.may_answer.wait()
        return "a plan"

    async def apply(
        self, claim: Claim, job_skills: Collection[str], plan: str, plan_failure: str
    ) -> Report:
        if self.failure is not None:
            raise self.failure
        profile, epoch = claim.job.profile, claim.lease.epoch
        order = Order(profile, epoch, job_skills, plan, claim.dry_run)
        self.orders.append(order)
        now = datetime.now(UTC)
        self.known[profile] = replace(self.known[profile], last_run_time=now, epoch=epoch)
        changes = (Change("archived", "old"), Change("merged", "mail-send", "mail"))
        backup_id = "20260101-120000"
        return Report(claim.run_id, now, "done", backup_id=backup_id, changes=changes)

    async def restore(self, profile: str, run_id: str, backup_id: str) -> Report:
        if self.failure is not None:
            raise self.failure
        self.restored.append((run_id, backup_id))
        return Report(run_id, summary="1 restored", restored_backup_id="20260101-120000")

    async def reports(self, profile: str, most: int) -> Sequence[Report]:
        return []

    async def looked(self, more: int = 3) -> None:
        """Return once whoever looks has looked so many times more."""
        wanted = self.looks + more
        await until(lambda: self.looks >= wanted)


@asynccontextmanager
async def schedulers(
    database: Database,
    libraries: Libraries,
    count: int = 1,
    config: CuratorConfig = ON,
    lease_s: float = 1.5,
    check_s: float = 0.05,
) -> AsyncGenerator[CollectorRegistry]:
    """Some schedulers on one database; at the end they die and let nothing go."""
    await database.migrate(metadata.create_all)
    registry, clock = CollectorRegistry(), SystemClock()
    metrics = CuratorMetrics.create(Meter(registry))
    counts = SchedulerMetrics.create(Meter(CollectorRegistry()))
    no_turns = cast("Any", None)
    tasks: list[asyncio.Task[None]] = []
    async with Workers() as workers:
        for _ in range(count):
            holder = Holder(new_owner(new_id("test")), run_leases(lease_s))
            work = CuratorRuns(
                database, libraries, leases=holder.leases, clock=clock, metrics=metrics
            )
            runner = Runner(
                database,
                RunServices(no_turns, no_turns, work),
                leases=holder.leases,
                clock=clock,
                slots=8,
                metrics=counts,
            )
            planner = Planner(
                database,
                runner,
                workers,
                holder=holder,
                clock=clock,
                timing=Timing(timedelta(days=1), sleep_s=0.5),
                metrics=counts,
            )
            timer = CuratorTimer(
                database,
                libraries,
                clock=clock,
                config=config,
                metrics=metrics,
                first_check_s=0.0,
                check_s=check_s,
            )
            tasks += [asyncio.create_task(part.run()) for part in (planner, timer)]
        try:
            yield registry
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


class Desk:
    """What people ask of the curator."""

    def __init__(self, database: Database, libraries: Libraries) -> None:
        self._servicer = CuratorServicer(database, libraries, SystemClock(), ON)
        self._context = cast("Any", None)

    async def begin(self, run_id: str, *, dry_run: bool = False) -> curator_pb2.CuratorRun:
        request = curator_pb2.RunCuratorRequest(run_id=run_id, dry_run=dry_run)
        return (await self._servicer.RunCurator(request, self._context)).run

    async def roll_back(self, run_id: str) -> None:
        await self._servicer.RollBack(curator_pb2.RollBackRequest(run_id=run_id), self._context)


async def runs(database: Database, profile: str = "default") -> list[Run]:
    find = partial(stored_runs.list_runs, job_id=stored.job_id_of(profile), limit=100)
    return await database.read(find)


async def ended(database: Database, count: int = 1, profile: str = "default") -> list[Run]:
    """The runs of a profile, the latest first, once so many have ended."""
    async with asyncio.timeout(20):
        while sum(run.finished_at is not None for run in await runs(database, profile)) < count:  # noqa: ASYNC110 - rows change without an event
            await asyncio.sleep(0.02)
    return await runs(database, profile)


async def test_of_many_schedulers_one_works_on_each_profile_once(database: Database) -> None:
    libraries = Libraries(due(), due("ann"), due("bob", is_paused=True))
    # Long, so that nobody is taken over who only waits for a processor.
    async with schedulers(database, libraries, 4, lease_s=30) as registry:
        await ended(database)
        await ended(database, profile="ann")
        await libraries.looked(8)
        assert sorted(order.profile for order in libraries.orders) == ["ann", "default"]
        assert libraries.asked == {"ann": 1, "default": 1}
        assert await runs(database, "bob") == []
        assert {order.plan for order in libraries.orders} == {"a plan"}
        value = registry.get_sample_value
        assert value("hermes_curator_transitions_total", {"to": "archived"}) == 2
        latest = value("hermes_curator_last_run_timestamp_seconds")
        assert latest is not None
        assert abs(latest - datetime.now(UTC).timestamp()) < 60


async def test_it_waits_for_its_time(database: Database) -> None:
    libraries = Libraries(
        due("ran", last_run_time=datetime.now(UTC) - 167 * HOUR),
        due("used", idle_since=datetime.now(UTC) - HOUR),
        due("busy", is_busy=True),
        due("paused", is_paused=True),
        due("never", last_run_time=datetime.max.replace(tzinfo=UTC)),
        due("new", last_run_time=None),
    )
    async with schedulers(database, libraries):
        await libraries.looked()
    for profile in libraries.known:
        assert await runs(database, profile) == [], profile
    # The first look at a library only records the time.
    assert libraries.begun == ["new"]


async def test_switched_off_it_does_only_what_it_is_asked_for(database: Database) -> None:
    libraries = Libraries(due())
    async with schedulers(database, libraries, config=OFF):
        await libraries.looked()
        assert await runs(database) == []
        asked = await Desk(database, libraries).begin("asked")
        assert not asked.HasField("finish_time")
        (run,) = await ended(database)
        assert (run.id, run.state) == ("asked", RunState.SUCCEEDED)
        again = await Desk(database, libraries).begin("asked")
        assert (again.run_id, again.HasField("finish_time")) == ("asked", True)
        with pytest.raises(AlreadyExists):
            await Desk(database, libraries).begin("asked", dry_run=True)


async def test_a_stale_look_does_not_repeat_a_run(database: Database) -> None:
    libraries, stale = Libraries(due()), due()
    # Its time is weeks ago, by a look from before the run.
    stale = replace(stale, last_run_time=datetime.now(UTC) - 700 * HOUR)
    libraries.known["default"] = stale
    async with schedulers(database, libraries):
        await ended(database)
    libraries.known["default"] = stale
    async with schedulers(database, libraries):
        await libraries.looked()
    assert len(await runs(database)) == 1


async def test_a_run_is_taken_over_and_is_made_once(database: Database) -> None:
    first = Libraries(due())
    first.may_answer.clear()
    async with schedulers(database, first):
        await first.is_asked.wait()
    # It has died, and holds the run until its lease ends.
    second = Libraries(due())
    async with schedulers(database, second, check_s=60):
        (run,) = await ended(database)
    assert run.state is RunState.SUCCEEDED
    assert ([order.epoch for order in second.orders], first.orders) == ([2], [])


async def test_epochs_grow_over_the_runs_and_over_what_the_library_knows(
    database: Database,
) -> None:
    libraries = Libraries(due(epoch=7))
    async with schedulers(database, libraries, config=OFF, lease_s=30):
        for number in range(3):
            await Desk(database, libraries).begin(f"run-{number}", dry_run=number == 1)
            await ended(database, number + 1)
    assert [order.epoch for order in libraries.orders] == [8, 9, 10]
    assert [order.dry_run for order in libraries.orders] == [False, True, False]


async def test_who_was_taken_over_changes_nothing_more(database: Database) -> None:
    libraries = Libraries(due())
    libraries.may_answer.clear()
    async with schedulers(database, libraries, lease_s=30):
        await libraries.is_asked.wait()
        (run,) = await runs(database)
        other, leases = new_owner("other"), run_leases(30)

        def take_over(connection: Any) -> None:
            connection.exec_driver_sql("UPDATE run SET lease_until = NULL, owner = NULL")
            assert leases.claim_these(connection, other, [run.id])

        await database.write(take_over)
        libraries.may_answer.set()
        await libraries.looked()
        assert libraries.orders == []
        (run,) = await runs(database)
        assert (run.finished_at, run.output) == (None, "")


@pytest.mark.parametrize(
    "failure", [FailedPrecondition("it cannot be backed up"), StaleEpoch("another run has")]
)
async def test_after_a_failed_run_it_rests(database: Database, failure: HermesError) -> None:
    libraries = Libraries(due())
    libraries.failure = failure
    async with schedulers(database, libraries):
        (run,) = await ended(database)
        assert (run.state, run.error) == (RunState.FAILED, str(failure))
        await libraries.looked()
        assert len(await runs(database)) == 1


async def test_a_run_that_waits_says_what_for_until_it_has_ended(database: Database) -> None:
    libraries = Libraries(due())
    libraries.failure = ServiceUnavailable("the library is held by another program")
    async with schedulers(database, libraries):
        async with asyncio.timeout(20):
            while not (found := await runs(database)) or not found[0].error:  # noqa: ASYNC110 - rows change without an event
                await asyncio.sleep(0.02)
        assert (found[0].finished_at, found[0].error) == (None, libraries.failure.message)
        with pytest.raises(FailedPrecondition, match="at work"):
            await Desk(database, libraries).begin("more")
        with pytest.raises(FailedPrecondition, match="at work"):
            await Desk(database, libraries).roll_back("back")
        undo = partial(stored.undo_names, profile="default", backup_id="", now=datetime.now(UTC))
        with pytest.raises(FailedPrecondition, match="at work"):
            await database.write(undo)
        libraries.failure = None
        (run,) = await ended(database)
        assert (run.state, run.error) == (RunState.SUCCEEDED, "")


async def test_jobs_follow_a_merge_and_a_rollback_however_often_it_is_asked_for(
    database: Database,
) -> None:
    await database.migrate(metadata.create_all)
    libraries = Libraries(due())
    libraries.may_answer.clear()

    async def skills() -> tuple[str, ...]:
        found = await database.read(partial(jobs.find_job, job_id="job1"))
        assert found is not None
        return found.job.spec.options.skills

    async with schedulers(database, libraries):
        await libraries.is_asked.wait()
        # It is made while the model thinks, and the library is told all the same.
        spec = JobSpec(options=JobOptions(skills=("notes/mail-send", "old")))
        job = replace(job_of(1), spec=spec)
        await database.write(partial(jobs.insert_job, new=job, request_digest=""))
        libraries.may_answer.set()
        await ended(database)
    assert set(libraries.orders[0].job_skills) == {"mail-send", "old"}
    assert await skills() == ("mail", "old")
    libraries.failure = ServiceUnavailable("changes of the skills are half made")
    with pytest.raises(ServiceUnavailable):
        await Desk(database, libraries).roll_back("back")
    assert await skills() == ("mail", "old")
    libraries.failure = None
    for request_id in ("back", "again"):
        await Desk(database, libraries).roll_back(request_id)
        assert await skills() == ("notes/mail-send", "old")


async def test_nobody_sees_or_changes_it_as_a_job(database: Database) -> None:
    libraries = Libraries(due())
    async with schedulers(database, libraries):
        await ended(database)
    assert (
        await database.read(partial(jobs.list_jobs, profile="default", limit=9, after=None)) == []
    )
    delete = partial(
        jobs.delete_job,
        profile="default",
        job_id=stored.job_id_of("default"),
        now=datetime.now(UTC),
    )
    assert not await database.write(delete)
