"""What services rely on, the same on SQLite and on PostgreSQL."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, StatementError

from services.database import (
    Database,
    DatabaseUnavailable,
    Prepared,
    UtcTime,
    db_now,
    insert_ignore,
    upsert,
    upsert_sum,
)

metadata = sa.MetaData()
entry = sa.Table(
    "entry",
    metadata,
    sa.Column("key", sa.String(50), primary_key=True),
    sa.Column("group", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("order", sa.Text),
    sa.Column("at", UtcTime),
)
IGNORE = insert_ignore(entry)
UPSERT = upsert(entry, key=("key", "group"), update=("order",))
counter = sa.Table(
    "counter",
    metadata,
    sa.Column("key", sa.String(50), primary_key=True),
    sa.Column("order", sa.BigInteger),
    sa.Column("note", sa.Text),
)
ADD = Prepared(upsert_sum(counter, key=("key",), added=("order",)))


@pytest.fixture
async def entries(database: Database) -> Database:
    await database.migrate(metadata.create_all)
    return database


def put(key: str, order: str = "x") -> Callable[[sa.Connection], str]:
    def insert(connection: sa.Connection) -> str:
        connection.execute(sa.insert(entry), {"key": key, "group": 1, "order": order})
        return key

    return insert


def keys(connection: sa.Connection) -> list[str]:
    return list(connection.execute(sa.select(entry.c.key).order_by(entry.c.key)).scalars())


async def test_an_exception_undoes_the_whole_write(entries: Database) -> None:
    def fail(connection: sa.Connection) -> None:
        put("a")(connection)
        raise LookupError

    with pytest.raises(LookupError):
        await entries.write(fail)
    assert await entries.read(keys) == []


async def test_many_additions_to_one_row_make_one_sum(entries: Database) -> None:
    async def add(number: int) -> None:
        values = {"key": f"{number % 2}", "order": number, "note": "kept"}
        await entries.write(lambda connection: ADD.run(connection, values))

    await asyncio.gather(*map(add, range(40)))
    rows = await entries.read(lambda c: c.execute(sa.select(counter)).all())
    assert sorted(map(tuple, rows)) == [("0", sum(range(0, 40, 2)), "kept"), ("1", 400, "kept")]


async def test_64_writers_at_once_lose_nothing(entries: Database) -> None:
    async def several(writer: int) -> None:
        for number in range(5):
            await entries.write(put(f"{writer:02}.{number}"))

    await asyncio.gather(*[several(writer) for writer in range(64)])
    assert len(await entries.read(keys)) == 320


async def test_a_commit_outlives_the_caller(entries: Database) -> None:
    task = asyncio.ensure_future(entries.write(put("a")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(10):
        while await entries.read(keys) != ["a"]:
            pass


async def test_closing_waits_for_commits(empty_database_url: str) -> None:
    database = Database(empty_database_url, "test")
    async with database:
        await database.migrate(metadata.create_all)
        task = asyncio.ensure_future(database.write(put("a")))
        await asyncio.sleep(0)
    assert await task == "a"
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await database.read(keys)
    async with Database(empty_database_url, "test") as again:
        assert await again.read(keys) == ["a"]


async def test_a_read_is_one_snapshot_and_cannot_write(entries: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)read-?only|cannot be written"):
        await entries.read(put("a"))
    assert await entries.read(keys) == []


async def test_insert_ignore_says_whether_the_row_was_new(entries: Database) -> None:
    row = {"key": "a", "group": 1, "order": "first", "at": None}
    assert await entries.write(lambda c: c.execute(IGNORE, row).rowcount) == 1
    again = {**row, "order": "second"}
    assert await entries.write(lambda c: c.execute(IGNORE, again).rowcount) == 0
    order = sa.select(entry.c.order)
    assert await entries.read(lambda c: c.execute(order).scalar_one()) == "first"
    new_only = IGNORE.returning(entry.c.key)
    rows = [row, {**row, "key": "b"}, {**row, "key": "b"}, {**row, "key": "c"}]
    inserted = await entries.write(lambda c: c.execute(new_only, rows).scalars().all())
    assert inserted == ["b", "c"]


async def test_upsert_updates_the_named_columns_only(entries: Database) -> None:
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    row = {"key": "a", "group": 1, "order": "first", "at": noon}
    await entries.write(lambda c: c.execute(UPSERT, row))
    later = {**row, "order": "second", "at": noon + timedelta(hours=1)}
    await entries.write(lambda c: c.execute(UPSERT, later))
    (found,) = await entries.read(lambda c: c.execute(sa.select(entry)).all())
    assert found == ("a", 1, "second", noon)


async def test_times_come_back_in_utc_to_the_microsecond_and_compare(entries: Database) -> None:
    moment = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    row = {"key": "a", "group": 1, "order": "", "at": moment}
    await entries.write(lambda c: c.execute(sa.insert(entry), row))
    at = sa.select(entry.c.at)
    found = await entries.read(lambda c: c.execute(at.where(entry.c.at <= moment)).scalar_one())
    assert found == moment
    assert found.tzinfo is UTC
    before = moment - timedelta(microseconds=1)
    earlier = at.where(entry.c.at <= before)
    assert await entries.read(lambda c: c.execute(earlier).all()) == []


async def test_a_time_without_a_zone_is_refused(entries: Database) -> None:
    row = {"key": "a", "group": 1, "order": "", "at": datetime(2026, 1, 1)}  # noqa: DTZ001
    with pytest.raises(StatementError, match="has no time zone"):
        await entries.write(lambda c: c.execute(sa.insert(entry), row))


async def test_the_database_s_time_is_now_and_can_be_moved(entries: Database) -> None:
    statement = sa.select(db_now(), db_now(30.0), db_now(sa.bindparam("s", type_=sa.Double())))
    now, later, earlier = await entries.read(lambda c: c.execute(statement, {"s": -1.5}).one())
    assert abs(now - datetime.now(UTC)) < timedelta(seconds=5)
    assert abs(later - now - timedelta(seconds=30)) < timedelta(seconds=1)
    assert abs(now - earlier - timedelta(seconds=1.5)) < timedelta(seconds=1)


async def test_listeners_get_hints_of_writes_and_of_nothing_else(entries: Database) -> None:
    jobs, turns = entries.listen("jobs"), entries.listen("turns")
    while not await jobs.wait(0.05):  # until the listening has begun
        await entries.notify("jobs")
    while await turns.wait(0.05):
        pass
    assert not await jobs.wait(0.05)
    await entries.write(put("a"), notify="turns")
    assert await turns.wait(5)
    assert not await turns.wait(0.05), "one hint, one wake-up"
    with pytest.raises(IntegrityError):
        await entries.write(put("a"), notify="turns")
    assert not await turns.wait(0.05), "nothing was written"
    assert not await jobs.wait(0.0)


async def test_parameters_stay_out_of_errors(entries: Database) -> None:
    await entries.write(put("a", "my password"))
    with pytest.raises(IntegrityError) as caught:
        await entries.write(put("a", "my password"))
    assert "my password" not in str(caught.value)
