"""A job that is deleted as its turn starts: wherever that was, the turn does not go on."""

import asyncio
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from hermes.agent.v1 import turn_pb2
from scheduler_service.jobs import RunState
from scheduler_service.options import Overlap
from scheduler_service.storage import migrations
from scheduler_service.storage.schema import run
from services.database import Database
from services.database.migrations import prepare
from tests.integration.scheduler_parts import SetClock, Wire, scheduler

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


async def to_stop(database: Database) -> list[str]:
    """The runs whose turns are to be stopped."""
    query = sa.select(run.c.id).where(run.c.stop_until.is_not(None))
    return list(await database.read(lambda connection: connection.execute(query).scalars().all()))


async def nothing_to_stop(database: Database) -> None:
    async with asyncio.timeout(20):
        while await to_stop(database):  # noqa: ASYNC110 - rows change without an event
            await asyncio.sleep(0.05)


async def test_a_turn_that_starts_after_it_was_to_be_stopped_is_stopped(
    database_url: str, wire: Wire
) -> None:
    """The call that starts it was on its way when its job was deleted."""
    clock = SetClock(NOON)
    async with Database(database_url, "scheduler") as database:
        await prepare(database, migrations)
        async with scheduler(database, wire, clock=clock) as dying:
            wire.turns.unreachable = True
            await dying.create("x", "1m", "wait done")
            await dying.passes()
            (claimed,) = await dying.claimed("x")
        async with scheduler(database, wire, clock=clock) as running:
            wire.turns.unreachable = False
            await running.catalog.delete("default", "x")
            await wire.turns.sought(claimed.id)
            assert await to_stop(database) == [claimed.id], "it may still start"
            late = turn_pb2.StartTurnRequest(turn_id=claimed.id)
            wire.turns.requests[claimed.id] = late
            await nothing_to_stop(database)
            assert wire.turns.stopped == [claimed.id]


async def test_what_has_not_started_when_it_could_last_is_stopped_no_more(
    database_url: str, wire: Wire
) -> None:
    clock = SetClock(NOON)
    async with Database(database_url, "scheduler") as database:
        await prepare(database, migrations)
        async with scheduler(database, wire, clock=clock) as running:
            await running.create(
                "x", "1m", "fail", max_retries=1, retry_backoff=timedelta(seconds=3600)
            )
            await running.create("y", "1m", "wait done")
            await running.passes()
            await wire.turns.started(2)
            async with asyncio.timeout(20):
                while (await running.claimed("x"))[0].attempt.number == 1:  # noqa: ASYNC110 - rows
                    await asyncio.sleep(0.02)
            for job_id in ("x", "y"):
                await running.catalog.delete("default", job_id)
            (waited,), (working,) = await running.claimed("x"), await running.claimed("y")
            assert waited.state is RunState.CANCELLED
            assert await to_stop(database) == [waited.id], "what was noted goes on to its end"
            passed = sa.update(run).values(stop_until=NOON - timedelta(days=1))
            one = passed.where(run.c.id == waited.id)
            await database.write(lambda connection: connection.execute(one))
            await nothing_to_stop(database)
            wire.turns.release(working.id)
            (done,) = await running.finished("y")
            assert (done.state, wire.turns.stopped) == (RunState.SUCCEEDED, [])


async def test_a_turn_whose_place_was_taken_is_stopped_though_what_took_it_is_deleted(
    database_url: str, wire: Wire
) -> None:
    clock = SetClock(NOON)
    async with Database(database_url, "scheduler") as database:
        await prepare(database, migrations)
        async with scheduler(database, wire, clock=clock) as running:
            await running.create("x", "every 1m", "wait done", overlap_policy=Overlap.REPLACE)
            await running.passes()
            (first,) = await wire.turns.started(1)
            await wire.turns.watched(first, 1)
            wire.turns.unreachable = True
            await running.passes()
            new, old = await running.claimed("x", 2)
            assert (new.state, old.state) == (RunState.CLAIMED, RunState.CANCELLED)
            await running.catalog.delete("default", "x")
            while running.planner.leases:  # noqa: ASYNC110 - the lease is found to be lost
                await asyncio.sleep(0.01)
            wire.turns.unreachable = False
            async with asyncio.timeout(20):
                while first not in wire.turns.stopped:  # noqa: ASYNC110 - nobody tells of it
                    await asyncio.sleep(0.05)
