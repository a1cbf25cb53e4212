"""What can happen to an SQLite file is told in one sentence, and is over when it is over."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from services.clock import SystemClock
from services.database import (
    Database,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseInUse,
    DatabaseReadOnly,
    db_now,
)
from services.database.sqlite import SqliteStore
from services.errors import HermesError
from tests.fakes.clock import ManualClock
from tests.support.disks import filled, small_disk

metadata = sa.MetaData()
note = sa.Table("note", metadata, sa.Column("text", sa.Text))

_HOLD = """
import asyncio, sys
from services.database import Database

async def main():
    async with Database(sys.argv[1], "test"):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def add(text: str) -> "sa.Executable":
    return sa.insert(note).values(text=text)


async def write(database: Database, text: str = "x") -> None:
    await database.write(lambda connection: connection.execute(add(text)))


async def count(database: Database) -> int:
    statement = sa.select(sa.func.count()).select_from(note)
    return await database.read(lambda connection: connection.execute(statement).scalar_one())


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


async def opening_fails(url: str) -> HermesError:
    """Open a database that cannot be opened, and return the error, whose message is one line."""
    with pytest.raises(HermesError) as caught:
        async with Database(url, "test"):
            pass
    assert "\n" not in caught.value.message
    assert "sqlite3" not in caught.value.message
    return caught.value


@pytest.fixture
def holder(sqlite_url: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that serves from the database."""
    command = [sys.executable, "-c", _HOLD, sqlite_url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


async def test_a_second_process_is_told_who_has_the_file(
    sqlite_url: str, holder: "subprocess.Popen[str]"
) -> None:
    error = await opening_fails(sqlite_url)
    assert isinstance(error, DatabaseInUse)
    assert f"in use by process {holder.pid}" in error.message


async def test_the_file_of_a_killed_process_is_free_at_once(
    sqlite_url: str, holder: "subprocess.Popen[str]"
) -> None:
    holder.kill()
    await asyncio.to_thread(holder.wait)
    async with Database(sqlite_url, "test") as database:
        await database.write(metadata.create_all)
        assert await count(database) == 0


async def test_a_file_that_is_no_database_is_named(sqlite_url: str) -> None:
    await asyncio.to_thread(path_of(sqlite_url).write_bytes, b"not a database " * 1000)
    error = await opening_fails(sqlite_url)
    assert isinstance(error, DatabaseDamaged)
    assert "backup" in error.message


async def test_a_file_that_another_program_locks_is_usable_again_afterwards(
    sqlite_url: str,
) -> None:
    path = path_of(sqlite_url)

    def lock() -> sqlite3.Connection:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        return other

    async with SqliteStore(path, SystemClock(), busy_timeout_s=0.05) as store:
        await store.write(metadata.create_all)
        other = await asyncio.to_thread(lock)
        with pytest.raises(DatabaseInUse, match="locked by another program"):
            await store.write(lambda connection: connection.execute(add("x")))
        await asyncio.to_thread(other.execute, "COMMIT")
        await store.write(lambda connection: connection.execute(add("x")))
        other.close()


async def test_missing_folders_are_made_for_the_owner_only(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/state/agent.db", "agent") as database:
        await database.write(metadata.create_all)
    status = await asyncio.to_thread((tmp_path / "state").stat)
    assert status.st_mode & 0o777 == 0o700


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with small_disk(tmp_path / "disk", mib=1) as folder:
        yield folder


@pytest.fixture
async def on_small_disk(disk: Path) -> AsyncIterator[Database]:
    async with Database(f"sqlite:///{disk}/test.db", "test") as database:
        await database.write(metadata.create_all)
        yield database


async def test_a_full_disk_loses_nothing_that_was_reported_and_is_over_when_it_is_over(
    disk: Path, on_small_disk: Database
) -> None:
    filler = disk / "filler"
    await asyncio.to_thread(filler.write_bytes, b"x" * 400_000)
    tasks = [write(on_small_disk, "y" * 10_000) for _ in range(100)]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    with pytest.raises(DatabaseFull, match="no space is left"):
        await write(on_small_disk, "y" * 1_000_000)
    saved = outcomes.count(None)
    assert 0 < sum(isinstance(outcome, DatabaseFull) for outcome in outcomes) == 100 - saved
    assert await count(on_small_disk) == saved
    await asyncio.to_thread(filler.unlink)
    await write(on_small_disk, "y" * 10_000)
    assert await count(on_small_disk) == saved + 1


@pytest.fixture
def full_disk(disk: Path) -> Iterator[Path]:
    with filled(disk):
        yield disk


async def test_a_disk_that_is_full_from_the_start_is_named(full_disk: Path) -> None:
    assert isinstance(await opening_fails(f"sqlite:///{full_disk}/test.db"), DatabaseFull)


async def test_a_disk_that_is_read_only_is_named(disk: Path) -> None:
    url = f"sqlite:///{disk}/test.db"
    async with Database(url, "test") as database:
        await database.write(metadata.create_all)
    command = ["mount", "-o", "remount,ro", disk]
    await asyncio.to_thread(subprocess.run, command, check=True)
    error = await opening_fails(url)
    assert isinstance(error, DatabaseReadOnly)
    assert "cannot be written" in error.message


async def test_the_time_of_leases_does_not_step_with_the_wall_clock(sqlite_url: str) -> None:
    clock = ManualClock()
    statement = sa.select(db_now(), db_now(30.0))
    async with Database(sqlite_url, "test", clock) as database:
        now, later = await database.read(lambda c: c.execute(statement).one())
        assert now == clock.now()
        assert later == now + timedelta(seconds=30)
        clock.step_wall(3600)
        assert (await database.read(lambda c: c.execute(statement).one()))[0] == now
        await clock.advance(7)
        moved, _ = await database.write(lambda c: c.execute(statement).one())
        assert moved == now + timedelta(seconds=7)
