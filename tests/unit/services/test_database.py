"""SQLite's writer commits together what waits together, and each write stands for itself."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from services.database import Database, DatabaseFull, DatabaseUnavailable
from services.errors import Internal, InvalidArgument

metadata = sa.MetaData()
note = sa.Table(
    "note",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column(
        "answers", sa.Integer, sa.ForeignKey("note.id", deferrable=True, initially="DEFERRED")
    ),
)


@pytest.fixture
async def notes(sqlite_url: str) -> AsyncIterator[Database]:
    async with Database(sqlite_url, "test") as opened:
        await opened.write(metadata.create_all)
        yield opened


def add(number: int, text: str = "x") -> Callable[[sa.Connection], int]:
    def insert(connection: sa.Connection) -> int:
        connection.execute(sa.insert(note), {"id": number, "text": text})
        return number

    return insert


def ids(connection: sa.Connection) -> list[int]:
    return list(connection.execute(sa.select(note.c.id).order_by(note.c.id)).scalars())


def driver(connection: sa.Connection) -> sqlite3.Connection:
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


@asynccontextmanager
async def writer_held(database: Database) -> AsyncGenerator[list[str]]:
    """Keep the writer busy, so that what is asked for in the block is committed together."""
    statements: list[str] = []
    entered, leave = threading.Event(), threading.Event()

    def hold(connection: sa.Connection) -> None:
        driver(connection).set_trace_callback(statements.append)
        entered.set()
        leave.wait()

    holding = asyncio.ensure_future(database.write(hold))
    await asyncio.to_thread(entered.wait)
    yield statements
    leave.set()
    await holding


async def together(
    database: Database, *jobs: Callable[[sa.Connection], object]
) -> tuple[list[object], list[str]]:
    """Run the jobs in one group; return their outcomes and the statements of the writer."""
    async with writer_held(database) as statements:
        tasks = [asyncio.ensure_future(database.write(job)) for job in jobs]
        await asyncio.sleep(0)
    outcomes: list[object] = await asyncio.gather(*tasks, return_exceptions=True)
    return outcomes, statements


async def test_what_waits_together_is_committed_together(notes: Database) -> None:
    outcomes, statements = await together(notes, *[add(number) for number in range(20)])
    assert outcomes == list(range(20))
    assert statements.count("COMMIT") == 2, "one for the write that held the writer, one for all"
    assert await notes.read(ids) == list(range(20))


async def test_one_write_of_a_group_fails_alone(notes: Database) -> None:
    def fail(connection: sa.Connection) -> None:
        add(3)(connection)
        raise StopIteration

    outcomes, statements = await together(notes, add(1), add(1), fail, add(2))
    assert outcomes[0] == 1
    assert isinstance(outcomes[1], IntegrityError)
    assert isinstance(outcomes[2], RuntimeError)
    assert outcomes[3] == 2
    assert statements.count("COMMIT") == 2
    assert await notes.read(ids) == [1, 2]


async def test_a_commit_that_fails_fails_its_whole_group_and_no_other(notes: Database) -> None:
    def orphan(connection: sa.Connection) -> None:
        connection.execute(sa.insert(note), {"id": 5, "text": "", "answers": 99})

    outcomes, _ = await together(notes, add(1), orphan)
    assert [type(outcome) for outcome in outcomes] == [DatabaseUnavailable, DatabaseUnavailable]
    assert "could not save" in str(outcomes[0])
    assert await notes.write(add(2)) == 2
    assert await notes.read(ids) == [2]


async def test_a_full_disk_in_a_group_fails_what_was_undone_and_later_writes_go_on(
    notes: Database,
) -> None:
    await notes.write(add(0))

    def flood(connection: sa.Connection) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
        try:
            add(2, "x" * 100_000)(connection)
        finally:
            connection.exec_driver_sql("PRAGMA max_page_count = 4294967294")

    outcomes, _ = await together(notes, add(1), flood, add(3))
    assert isinstance(outcomes[0], DatabaseFull), "SQLite undid it together with the flood"
    assert isinstance(outcomes[1], DatabaseFull)
    assert outcomes[2] == 3
    assert await notes.read(ids) == [0, 3]


async def test_nothing_but_the_file_and_its_lock_is_left(sqlite_url: str, tmp_path: Path) -> None:
    async with Database(sqlite_url, "test") as database:
        await database.write(metadata.create_all)
        await database.read(ids)
    left = await asyncio.to_thread(lambda: sorted(tmp_path.iterdir()))
    assert [path.name for path in left] == ["test.db", "test.db.lock"]
    status = await asyncio.to_thread((tmp_path / "test.db").stat)
    assert stat.S_IMODE(status.st_mode) == 0o600
    for thread in threading.enumerate():
        if "test.db" in thread.name:
            await asyncio.to_thread(thread.join)


async def test_reads_see_a_snapshot_while_writes_go_on(notes: Database) -> None:
    await notes.write(add(1))
    entered, leave = threading.Event(), threading.Event()

    def look_twice(connection: sa.Connection) -> tuple[list[int], list[int]]:
        before = ids(connection)
        entered.set()
        leave.wait()
        return before, ids(connection)

    looking = asyncio.ensure_future(notes.read(look_twice))
    await asyncio.to_thread(entered.wait)
    await notes.write(add(2))
    assert await notes.read(ids) == [1, 2], "another reader sees it"
    leave.set()
    assert await looking == ([1], [1])


async def test_foreign_keys_hold_but_in_a_migration_that_mends_them(notes: Database) -> None:
    await notes.write(add(1))

    def break_and_mend(connection: sa.Connection) -> None:
        connection.execute(sa.insert(note), {"id": 2, "text": "", "answers": 3})
        add(3)(connection)

    await notes.migrate(break_and_mend)
    assert await notes.read(ids) == [1, 2, 3]

    def break_only(connection: sa.Connection) -> None:
        connection.execute(sa.insert(note), {"id": 4, "text": "", "answers": 99})

    with pytest.raises(Internal, match="note"):
        await notes.migrate(break_only)
    assert await notes.read(ids) == [1, 2, 3]


async def test_commits_reach_the_disk_before_they_are_reported(notes: Database) -> None:
    def settings(connection: sa.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names]

    assert await notes.write(settings) == ["wal", 2, 1]


@pytest.mark.parametrize(
    "url", ["", "notes.db", "mysql://host/name", "sqlite://", "sqlite:///:memory:"]
)
def test_a_url_that_is_none_of_ours_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="sqlite:///"):
        Database(url, "test")
