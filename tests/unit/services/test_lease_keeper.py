"""Leases are renewed while that works, and given up in time when it does not."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from services.database import Database
from services.database.leases import Lease, LeaseKeeper
from services.lifecycle import Workers
from tests.fakes.clock import ManualClock
from tests.sample.leases import LEASES, ONE, OTHER, Work, metadata, work


class Keeping:
    """A keeper at work, on a table of work and a clock that a test moves."""

    def __init__(self, table: Work, keeper: LeaseKeeper, running: "asyncio.Task[None]") -> None:
        self.table = table
        self.keeper = keeper
        self.running = running
        self.lost: list[str] = []

    async def hold(self, row_id: str) -> Lease:
        since = self.table.clock.monotonic()
        lease = await self.table.claimed(row_id, ONE)
        self.keeper.hold(lease, since, lambda: self.lost.append(row_id))
        return lease

    async def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            await self.table.clock.advance(1)
            await self.table.database.write(lambda _: None)  # whatever was asked for is done


@pytest.fixture
async def keeping(sqlite_url: str) -> AsyncIterator[Keeping]:
    clock = ManualClock()
    async with Database(sqlite_url, "test", clock) as database, Workers() as workers:
        await database.write(metadata.create_all)
        keeper = LeaseKeeper(database, LEASES, clock)
        running = workers.start("keeper", keeper.run())
        table = Work(database, clock)
        await table.add("w1", "w2")
        yield Keeping(table, keeper, running)


async def test_what_is_held_is_never_free(keeping: Keeping) -> None:
    await keeping.hold("w1")
    lease = await keeping.hold("w2")
    for _ in range(20):
        await keeping.pass_time(5)
        assert await keeping.table.claim("w1", OTHER) is None
    assert keeping.lost == []
    await keeping.table.fence(lease)


async def test_what_is_dropped_is_free_after_the_time_of_a_lease(keeping: Keeping) -> None:
    lease = await keeping.hold("w1")
    keeping.keeper.drop(lease)
    await keeping.pass_time(31)
    assert await keeping.table.claim("w1", OTHER) is not None
    assert keeping.lost == []


async def test_the_holder_hears_of_another_owner_at_the_next_renewal(keeping: Keeping) -> None:
    await keeping.hold("w1")
    await keeping.hold("w2")
    stolen = sa.update(work).where(work.c.id == "w1").values(owner=str(OTHER), epoch=9)
    await keeping.table.database.write(lambda c: c.execute(stolen))
    await keeping.pass_time(11)
    assert keeping.lost == ["w1"]


@pytest.mark.parametrize("broken", ["hangs", "fails"])
async def test_a_holder_that_cannot_renew_stops_before_anybody_takes_over(
    keeping: Keeping, broken: str
) -> None:
    await keeping.hold("w1")
    clock, leave = keeping.table.clock, threading.Event()
    if broken == "hangs":
        hanging = asyncio.ensure_future(keeping.table.database.write(lambda _: leave.wait()))
    else:
        hanging = asyncio.ensure_future(keeping.table.database.__aexit__(None, None, None))
    try:
        for _ in range(23):
            await clock.advance(1)
        assert keeping.lost == []
        await clock.advance(1)
        await clock.advance(1)
        assert keeping.lost == ["w1"], "24 s after the claim, 6 s before the lease ends"
    finally:
        leave.set()
        await hanging


async def test_a_renewal_that_failed_is_tried_again_soon(keeping: Keeping) -> None:
    lease = await keeping.hold("w1")
    leave = threading.Event()
    hanging = asyncio.ensure_future(keeping.table.database.write(lambda _: leave.wait()))
    for _ in range(22):
        await keeping.table.clock.advance(1)
    leave.set()
    await hanging
    await keeping.pass_time(30)
    assert keeping.lost == []
    await keeping.table.fence(lease)


async def test_a_laptop_that_wakes_up_gives_up_what_it_held(keeping: Keeping) -> None:
    await keeping.hold("w1")
    await keeping.pass_time(5)
    await keeping.table.clock.suspend(3600)
    assert keeping.lost == ["w1"]


async def test_a_row_that_we_claim_again_is_lost_to_whoever_worked_on_it(keeping: Keeping) -> None:
    first = await keeping.hold("w1")
    await keeping.table.clock.suspend(20)
    await keeping.table.database.write(lambda c: LEASES.release(c, first))
    second = await keeping.hold("w1")
    assert keeping.lost == ["w1"]
    keeping.keeper.drop(first)  # too late to be about the lease that is held now
    await keeping.pass_time(60)
    assert await keeping.table.claim("w1", OTHER) is None
    await keeping.table.fence(second)
    assert keeping.lost == ["w1"]


async def test_the_end_of_the_keeper_is_the_end_of_its_leases(keeping: Keeping) -> None:
    await keeping.hold("w1")
    keeping.running.cancel()
    await asyncio.wait([keeping.running])
    assert keeping.lost == ["w1"]
