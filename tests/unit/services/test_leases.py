"""Leases: who holds what for how long, and who keeps them."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from services.database import Database
from services.database.leases import Fenced, Lease, LeaseKeeper, new_owner
from services.errors import Reason
from services.lifecycle import Workers
from tests.fakes.clock import ManualClock
from tests.sample.leases import LEASES, ONE, OTHER, Work, metadata, work


@pytest.fixture
async def table(sqlite_url: str) -> AsyncIterator[Work]:
    clock = ManualClock()
    async with Database(sqlite_url, "test", clock) as database:
        await database.write(metadata.create_all)
        yield Work(database, clock)


async def test_who_claims_first_holds_the_row_for_the_time_of_a_lease(table: Work) -> None:
    await table.add("w1")
    lease = await table.claimed("w1", ONE)
    assert lease == Lease("w1", "one/boot_a", 1, table.clock.now() + timedelta(seconds=30))
    assert await table.claim("w1", OTHER) is None
    await table.clock.advance(29.9)
    assert await table.claim("w1", OTHER) is None
    await table.clock.advance(0.2)
    taken = await table.claimed("w1", OTHER)
    assert (taken.owner, taken.epoch) == ("other/boot_b", 2)


async def test_a_released_row_has_no_owner_and_a_lost_one_keeps_it(table: Work) -> None:
    await table.add("w1")
    lease = await table.claimed("w1", ONE)
    await table.database.write(lambda c: LEASES.release(c, lease, state="QUEUED"))
    released = await table.row("w1")
    assert (released.owner, released.lease_until) == (None, None)
    await table.claimed("w1", OTHER)
    await table.clock.advance(31)
    assert (await table.row("w1")).owner == str(OTHER)
    assert (await table.claimed("w1", ONE)).epoch == 3


async def test_a_claim_changes_other_columns_too(table: Work) -> None:
    await table.add("w1")
    await table.claim("w1", ONE, endpoint="10.0.0.1:7001", state="RUNNING")
    row = await table.row("w1")
    assert (row.endpoint, row.state, row.version) == ("10.0.0.1:7001", "RUNNING", 1)


async def test_what_is_not_claimable_is_left_alone(table: Work) -> None:
    await table.add("w1", state="WAITING_PERSON")
    assert await table.claim("w1", ONE) is None
    assert await table.claim("missing", ONE) is None


async def test_of_some_rows_those_are_claimed_that_nobody_holds(table: Work) -> None:
    await table.add("w1", "w2", "w3")
    await table.add("w0", state="DONE")
    await table.claimed("w1", OTHER)
    some = ["w3", "w2", "w1", "w0"]
    claim = await table.database.write(lambda c: LEASES.claim_these(c, ONE, some))
    assert [lease.id for lease in claim] == ["w2", "w3"]


async def test_a_fence_lets_the_holder_write_and_refuses_everybody_else(table: Work) -> None:
    await table.add("w1")
    lease = await table.claimed("w1", ONE)
    await table.fence(lease, state="RUNNING")
    assert (await table.row("w1")).version == 2
    await table.clock.advance(60)
    await table.fence(lease)  # late, but nobody has claimed it: nothing is wrong with that
    await table.claimed("w1", OTHER)
    for late in (LEASES.fence, LEASES.release):
        with pytest.raises(Fenced) as caught:
            await table.database.write(lambda c, late=late: late(c, lease, state="BROKEN"))
        assert caught.value.reason is Reason.STALE_EPOCH
        assert caught.value.reason.status.name == "ABORTED"
    assert (await table.row("w1")).state == "RUNNING"


async def test_the_same_owner_of_an_earlier_epoch_is_fenced_as_well(table: Work) -> None:
    await table.add("w1")
    first = await table.claimed("w1", ONE)
    await table.clock.advance(31)
    await table.claimed("w1", ONE)
    with pytest.raises(Fenced):
        await table.fence(first)


async def test_renewing_prolongs_what_is_ours_and_says_what_is(table: Work) -> None:
    await table.add("w1", "w2", "w3")
    leases = [await table.claimed(row_id, ONE) for row_id in ("w1", "w2", "w3")]
    await table.clock.advance(31)
    await table.claimed("w2", OTHER)
    await table.claimed("w3", ONE)
    kept = await table.database.write(lambda c: LEASES.renew(c, leases))
    end: datetime = table.clock.now() + timedelta(seconds=30)
    assert kept == [Lease("w1", "one/boot_a", 1, end)]
    assert (await table.row("w1")).lease_until == end


async def test_thousands_of_leases_are_renewed_in_one_write(table: Work) -> None:
    ids = [f"w{number:04}" for number in range(1200)]
    await table.add(*ids)
    leases = await table.database.write(lambda c: LEASES.claim_these(c, ONE, ids))
    assert len(leases) == 1200
    kept = await table.database.write(lambda c: LEASES.renew(c, leases))
    assert [lease.id for lease in kept] == ids


async def test_leases_of_earlier_lives_end_at_once(table: Work) -> None:
    await table.add("w1", "w2", "w3")
    await table.claimed("w1", ONE)
    reborn = new_owner("one")
    await table.claimed("w2", reborn)
    cleared = await table.database.write(lambda c: LEASES.clear_earlier_boots(c, reborn))
    assert cleared == 1
    assert (await table.row("w1")).owner == str(ONE), "it was lost, not let go"
    taken = await table.claimed("w1", reborn)
    assert taken.epoch == 2
    assert await table.claim("w2", OTHER) is None


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
