"""Leases where replicas really meet: on PostgreSQL, and the same calls on SQLite."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from services.clock import SystemClock
from services.database import Database
from services.database.leases import Fenced, Lease, LeaseTable, Owner, new_owner
from tests.sample.leases import LEASES, NEW, ONE, OTHER, metadata, work

QUICK = LeaseTable(work, ttl_s=0.6)

steps = sa.MetaData()
step = sa.Table("step", steps, sa.Column("work_id", sa.String(40)))
STEPS = sa.select(sa.func.count()).select_from(step)
STEP = sa.insert(step).values(work_id="w1")


def add(*ids: str) -> Callable[[sa.Connection], object]:
    rows = [{**NEW, "id": row_id} for row_id in ids]
    return lambda connection: connection.execute(sa.insert(work), rows)


@pytest.fixture
async def shared(database: Database) -> Database:
    await database.migrate(metadata.create_all)
    return database


async def claim(
    database: Database, row_id: str, owner: Owner, leases: LeaseTable = QUICK
) -> Lease | None:
    return await database.write(lambda c: leases.claim(c, row_id, owner))


async def test_a_lease_ends_by_the_database_s_time(shared: Database) -> None:
    await shared.write(add("w1"))
    first = await claim(shared, "w1", ONE)
    assert first is not None
    assert await claim(shared, "w1", OTHER) is None
    taken = None
    while taken is None:
        await asyncio.sleep(0.05)
        taken = await claim(shared, "w1", OTHER)
    assert taken.epoch == 2
    assert taken.until > first.until
    with pytest.raises(Fenced):
        await shared.write(lambda c: QUICK.fence(c, first, state="RUNNING"))
    await shared.write(lambda c: QUICK.fence(c, taken, state="RUNNING"))
    await shared.write(lambda c: QUICK.release(c, taken))
    assert await claim(shared, "w1", ONE) is not None


async def test_of_claimers_at_the_same_time_one_has_each_row(shared: Database) -> None:
    ids = [f"w{number:02}" for number in range(20)]
    await shared.write(add(*ids))
    claims = [claim(shared, row_id, new_owner("agent"), LEASES) for row_id in ids for _ in range(4)]
    taken = await asyncio.gather(*claims)
    assert [lease.id for lease in taken if lease is not None] == ids


async def test_only_this_instance_s_earlier_lives_lose_their_leases(
    empty_postgres_url: str,
) -> None:
    async with Database(empty_postgres_url, "test") as database:
        await database.migrate(metadata.create_all)
        await database.write(add("w1", "w2", "w3"))
        holders = (
            Owner("agent_0", "boot_a"),
            Owner("agentx0", "boot_a"),
            Owner("agent_0", "boot_b"),
        )
        for row_id, holder in zip(("w1", "w2", "w3"), holders, strict=True):
            assert await claim(database, row_id, holder, LEASES)
        cleared = await database.write(lambda c: LEASES.clear_earlier_boots(c, holders[2]))
        assert cleared == 1
        free = [each for each in ("w1", "w2", "w3") if await claim(database, each, OTHER, LEASES)]
        assert free == ["w1"]


class Replicas:
    """Two connections in the hands of a test, and a thread to wait for what blocks."""

    def __init__(self, late: sa.Connection, new: sa.Connection, pool: ThreadPoolExecutor) -> None:
        self.late = late
        self.new = new
        self._pool = pool

    def claim(self) -> "Future[int]":
        """Take the row over from the late owner; return how many steps the new owner then sees."""
        return self._pool.submit(self._claim)

    def _claim(self) -> int:
        with self.new.begin():
            assert LEASES.claim(self.new, "w1", OTHER) is not None
        with self.new.begin():
            return self.new.execute(STEPS).scalar_one()


@pytest.fixture
def lease() -> Lease:
    """What the late owner believes in: its lease has ended, and it does not know."""
    return Lease("w1", str(ONE), 1, SystemClock().now())


@pytest.fixture
def replicas(empty_postgres_url: str) -> Iterator[Replicas]:
    engine = sa.create_engine(
        empty_postgres_url.replace("://", "+psycopg://"),
        poolclass=NullPool,
        isolation_level="READ COMMITTED",
    )
    ended = {**NEW, "id": "w1", "owner": str(ONE), "epoch": 1}
    with ExitStack() as stack:
        late, new = (stack.enter_context(engine.connect()) for _ in range(2))
        with new.begin():
            metadata.create_all(new)
            steps.create_all(new)
            new.execute(sa.insert(work), {**ended, "lease_until": SystemClock().now()})
        yield Replicas(late, new, stack.enter_context(ThreadPoolExecutor(1)))


def test_a_new_owner_sees_all_that_the_late_one_wrote(replicas: Replicas, lease: Lease) -> None:
    with replicas.late.begin():
        LEASES.fence(replicas.late, lease)
        replicas.late.execute(STEP)
        claim = replicas.claim()
        with pytest.raises(TimeoutError):
            claim.result(timeout=0.3)  # until the late owner commits
    assert claim.result(timeout=10) == 1


def test_after_a_claim_the_late_owner_writes_nothing(replicas: Replicas, lease: Lease) -> None:
    assert replicas.claim().result(timeout=10) == 0
    with replicas.late.begin(), pytest.raises(Fenced):
        LEASES.fence(replicas.late, lease)
