"""A database is made, upgraded or refused, and both ways to a schema lead to the same one."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from services.database import Database, DatabaseMismatch
from services.migrations import prepare, upgrade
from tests.migrations import assert_migrations_match, schema
from tests.postgres import PostgresServer
from tests.sample import migrations
from tests.sample.schema import folder, metadata, note

_FRESH = """
import asyncio, sys
from services.database import Database
from services.migrations import prepare
from tests.sample import migrations
from tests.sample.schema import metadata

async def main():
    for _ in range(2):
        async with Database(sys.argv[1], "test") as database:
            await prepare(database, metadata, migrations)
    print({"alembic", "sqlalchemy.dialects.postgresql"} & set(sys.modules))

asyncio.run(main())
"""


async def version(database: Database) -> str:
    query = sa.text("SELECT version_num FROM alembic_version")
    return await database.read(lambda connection: connection.execute(query).scalar_one())


async def rows(database: Database, table: sa.Table) -> list[Any]:
    return list(await database.read(lambda c: c.execute(sa.select(table)).all()))


def first_version_with_rows(connection: sa.Connection) -> None:
    """Leave the database as the first migration made it, and put something into it."""
    upgrade(connection, migrations, "0001")
    connection.execute(sa.text("INSERT INTO folder VALUES ('f1', 'inbox')"))
    connection.execute(sa.text("INSERT INTO note VALUES ('f1', 1, 'hello')"))


async def test_both_ways_lead_to_the_same_schema(tmp_path: Path, postgres: PostgresServer) -> None:
    await assert_migrations_match(metadata, migrations, tmp_path, postgres)


async def test_a_difference_of_the_two_ways_is_seen(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    changed = sa.MetaData()
    for table in metadata.tables.values():
        table.to_metadata(changed)
    changed.tables["note"].append_column(sa.Column("size", sa.Integer))
    with pytest.raises(AssertionError):
        await assert_migrations_match(changed, migrations, tmp_path, postgres)


async def test_an_empty_database_is_prepared_and_stays_so(database: Database) -> None:
    for _ in range(2):
        await prepare(database, metadata, migrations)
    assert await version(database) == "0002"
    await database.write(lambda c: c.execute(sa.insert(folder).values(id="f1", name="inbox")))
    assert await rows(database, folder) == [("f1", "inbox")]


async def test_an_older_database_is_upgraded_with_what_is_in_it(database: Database) -> None:
    await database.migrate(first_version_with_rows)
    await prepare(database, metadata, migrations)
    assert await version(database) == "0002"
    assert await rows(database, folder) == [("f1", "inbox")]
    assert await rows(database, note) == [("f1", 1, "OPEN", "hello", None)]


async def test_a_migration_that_fails_changes_nothing(database: Database) -> None:
    await database.migrate(first_version_with_rows)
    clash = sa.text("INSERT INTO folder VALUES ('f2', 'inbox')")
    await database.write(lambda c: c.execute(clash))
    before = await database.read(schema)
    with pytest.raises(IntegrityError):  # two folders of one name
        await prepare(database, metadata, migrations)
    assert await version(database) == "0001"
    assert await database.read(schema) == before


async def test_a_newer_database_is_refused(database: Database) -> None:
    await prepare(database, metadata, migrations)
    newer = sa.text("UPDATE alembic_version SET version_num = '0003'")
    await database.write(lambda c: c.execute(newer))
    with pytest.raises(DatabaseMismatch, match="newer than this version"):
        await prepare(database, metadata, migrations)


async def test_the_database_of_another_program_is_refused(database: Database) -> None:
    await database.migrate(lambda c: c.execute(sa.text("CREATE TABLE theirs (id INTEGER)")))
    with pytest.raises(DatabaseMismatch, match="another program"):
        await prepare(database, metadata, migrations)


async def test_replicas_that_start_together_upgrade_once(empty_postgres_url: str) -> None:
    async def start() -> None:
        async with Database(empty_postgres_url, "test") as replica:
            await prepare(replica, metadata, migrations)

    await asyncio.gather(*[start() for _ in range(3)])
    async with Database(empty_postgres_url, "test") as database:
        assert await version(database) == "0002"


def test_a_new_file_needs_no_alembic(sqlite_url: str) -> None:
    command = [sys.executable, "-c", _FRESH, sqlite_url]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout == "set()\n"
