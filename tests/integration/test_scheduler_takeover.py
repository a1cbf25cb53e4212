"""Several schedulers on one database: one run a due time, whoever dies."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from scheduler_service.jobs import Origin, RunState
from scheduler_service.options import JobOptions
from scheduler_service.schedule.misfires import fire
from scheduler_service.storage import claims, runs
from scheduler_service.storage.claims import Holder, run_leases
from scheduler_service.storage.jobs import to_text
from scheduler_service.storage.schema import metadata
from services.database import Database
from services.database.leases import Fenced, new_owner
from tests.integration.scheduler_parts import (
    LEASE_S,
    NOON,
    SchedulerUnderTest,
    SetClock,
    Wire,
    scheduler,
)

GOOD = runs.Ending(error="", delivery_error="", is_silent=False)


class Replicas:
    """Schedulers that share a database, as replicas do or, with SQLite, as one process can."""

    def __init__(self, url: str, wire: Wire, stack: AsyncExitStack) -> None:
        self._url = url
        self._wire = wire
        self._stack = stack
        self._shared: Database | None = None
        self.clock = SetClock(NOON)

    async def database(self) -> Database:
        if self._shared is not None and self._shared.dialect == "sqlite":
            return self._shared
        database = await self._stack.enter_async_context(Database(self._url, "scheduler"))
        if self._shared is None:
            await database.migrate(metadata.create_all)
            self._shared = database
        return database

    async def start(self) -> SchedulerUnderTest:
        """Start one more scheduler."""
        running = scheduler(await self.database(), self._wire, clock=self.clock)
        return await self._stack.enter_async_context(running)


@pytest.fixture
async def replicas(database_url: str, wire: Wire) -> AsyncGenerator[Replicas]:
    async with AsyncExitStack() as stack:
        yield Replicas(database_url, wire, stack)


async def test_a_run_whose_claimer_died_before_its_turn_started_is_taken_over(
    replicas: Replicas, wire: Wire
) -> None:
    wire.turns.unreachable = True
    first = await replicas.start()
    await first.create("x", "1m")
    await first.passes()
    (run,) = await first.claimed("x")
    await first.die()
    second = await replicas.start()
    wire.turns.unreachable = False
    assert await wire.deliveries.delivered(1) == ["hello"]
    (after,) = await second.finished("x")
    assert (after.id, after.state) == (run.id, RunState.SUCCEEDED)
    assert list(wire.turns.requests) == [run.id]


async def test_a_turn_under_way_is_watched_on_and_not_started_again(
    replicas: Replicas, wire: Wire
) -> None:
    first = await replicas.start()
    await first.create("x", "1m", "wait done")
    await first.passes()
    (turn_id,) = await wire.turns.started(1)
    await wire.turns.watched(turn_id, 1)
    await first.die()
    second = await replicas.start()
    await wire.turns.watched(turn_id, 2)
    wire.turns.release(turn_id)
    assert await wire.deliveries.delivered(1) == ["done"]
    (run,) = await second.finished("x")
    assert run.id == turn_id
    assert wire.turns.start_calls[turn_id] == 1


async def test_an_output_that_was_not_delivered_yet_is_delivered_by_another(
    replicas: Replicas, wire: Wire
) -> None:
    wire.deliveries.unreachable = True
    first = await replicas.start()
    await first.create("x", "1m")
    await first.passes()
    (run,) = await first.claimed("x")
    while wire.deliveries.calls[run.id] == 0:  # noqa: ASYNC110 - the fake is away and tells nothing
        await asyncio.sleep(0.01)
    await first.die()
    second = await replicas.start()
    wire.deliveries.unreachable = False
    assert await wire.deliveries.delivered(1) == ["hello"]
    await second.finished("x")
    assert wire.turns.watched_after[run.id] == [0]


async def test_whoever_drains_leaves_its_runs_at_once(replicas: Replicas, wire: Wire) -> None:
    first = await replicas.start()
    await first.create("x", "1m", "wait done")
    await first.passes()
    (turn_id,) = await wire.turns.started(1)
    await wire.turns.watched(turn_id, 1)
    second = await replicas.start()
    await first.planner.drain()
    # The lease, renewed a third of its time ago at most, would last for longer.
    async with asyncio.timeout(LEASE_S * 0.6):
        await wire.turns.watched(turn_id, 2)
    await first.create("y", "1m")
    await second.passes()
    wire.turns.release(turn_id)
    await second.finished("x")
    await second.finished("y")
    assert sorted(first.workers.names) == []


async def test_what_was_done_before_the_job_was_changed_is_not_done_again(
    replicas: Replicas, wire: Wire
) -> None:
    """Nobody has heard of a turn that started, then of a delivery; each is asked for otherwise."""
    wire.turns.tells_nobody, wire.deliveries.lost_answers = True, 10_000

    async def change(name: str) -> None:
        spec = to_text(replace(job.spec, name=name, prompt=f"answer {name}"))
        changed = metadata.tables["job"].update().values(spec=spec)
        await (await replicas.database()).write(lambda connection: connection.execute(changed))

    first = await replicas.start()
    # A terminal is told the job's name.
    job = await first.create("x", "1m", origin=Origin("cli", "7"))
    await first.passes()
    await wire.turns.started(1)
    await first.die()
    wire.turns.tells_nobody = False
    await change("another")
    second = await replicas.start()
    (text,) = await wire.deliveries.delivered(1)
    await second.die()
    wire.deliveries.lost_answers = 0
    await change("third")
    third = await replicas.start()
    (run,) = await third.finished("x")
    assert (run.state, run.delivery_error) == (RunState.SUCCEEDED, "")
    assert wire.turns.start_calls[run.id] == 2
    assert wire.deliveries.conflicts == [run.id]
    assert wire.deliveries.texts == [text]
    assert text.endswith("hello")


async def test_a_living_owner_keeps_its_run_for_longer_than_a_lease(
    replicas: Replicas, wire: Wire
) -> None:
    first = await replicas.start()
    await replicas.start()
    await first.create("x", "1m", "wait done")
    await first.passes()
    (turn_id,) = await wire.turns.started(1)
    await asyncio.sleep(2 * LEASE_S)
    wire.turns.release(turn_id)
    await first.finished("x")
    assert wire.turns.watched_after[turn_id] == [0]


async def test_an_owner_that_was_taken_over_writes_nothing(replicas: Replicas, wire: Wire) -> None:
    database = await replicas.database()
    idle = await replicas.start()
    await idle.create("x", "every 1m")
    await idle.planner.drain()
    due = NOON + timedelta(minutes=1)
    (job,) = await database.read(partial(claims.due_jobs, now=due, limit=9))
    firing = fire(job.schedule, due, due, JobOptions(), timedelta(days=1))
    early = Holder(new_owner("early"), run_leases(-1.0))
    late = Holder(new_owner("late"), run_leases(60.0))
    claimed = await database.write(
        partial(claims.claim, holder=early, firings=[(job, firing)], now=due, room=9)
    )
    (mine,) = claimed.runs
    assert await database.write(partial(claims.free_abandoned, limit=9)) == 1
    (theirs,) = await database.write(partial(claims.take_up, holder=late, limit=9))
    assert (theirs.run_id, theirs.lease.epoch) == (mine.run_id, mine.lease.epoch + 1)

    for write in (
        partial(runs.save, leases=early.leases, claim=mine),
        partial(runs.close_run, leases=early.leases, claim=mine, ending=GOOD, now=due),
    ):
        with pytest.raises(Fenced):
            await database.write(write)
    await database.write(partial(claims.let_go, holder=early, held=[mine.lease]))
    outlook = await database.read(claims.look)
    assert outlook.abandoned_in_s is not None
    assert 50 < outlook.abandoned_in_s <= 60

    again = await database.write(
        partial(claims.claim, holder=early, firings=[(job, firing)], now=due, room=9)
    )
    assert again.runs == ()
