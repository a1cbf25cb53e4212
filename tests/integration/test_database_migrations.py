"""A database is made, upgraded or refused, and both ways to a schema lead to the same one."""

import asyncio
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from agent_service.storage import migrations as agent
from gateway_service.storage import migrations as gateway
from scheduler_service.storage import migrations as scheduler
from services.database import Database, DatabaseMismatch
from services.database.migrations import prepare, upgrade
from tests.sample import migrations
from tests.sample.schema import folder, note
from tests.support.migrations import assert_migrations_match, schema
from tests.support.postgres import PostgresServer

_FRESH = """
import asyncio, sys
from services.database import Database
from services.database.migrations import prepare
from tests.sample import migrations

async def main():
    for _ in range(2):
        async with Database(sys.argv[1], "test") as database:
            await prepare(database, migrations)
    print({"alembic", "sqlalchemy.dialects.postgresql"} & set(sys.modules))

asyncio.run(main())
"""
_LATER = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"
"""
_EXPAND = """
def upgrade():
    op.add_column("folder", sa.Column("color", sa.Text))
"""
_CONTRACT = """
contracts = "{}"

def upgrade():
    op.drop_column("note", "at")
"""


async def stamp(database: Database) -> str:
    query = sa.text("SELECT version_num FROM alembic_version")
    return await database.read(lambda connection: connection.execute(query).scalar_one())


async def rows(database: Database, table: sa.Table) -> list[Any]:
    return list(await database.read(lambda c: c.execute(sa.select(table)).all()))


def first_version_with_rows(connection: sa.Connection) -> None:
    """Leave the database as the first migration made it, and put something into it."""
    upgrade(connection, migrations, "0001")
    connection.execute(sa.text("INSERT INTO folder VALUES ('f1', 'inbox')"))
    connection.execute(sa.text("INSERT INTO note VALUES ('f1', 1, 'hello')"))


@pytest.mark.parametrize("service", [migrations, agent, gateway, scheduler])
async def test_both_ways_lead_to_the_same_schema(
    service: ModuleType, tmp_path: Path, postgres: PostgresServer
) -> None:
    await assert_migrations_match(service, tmp_path, postgres)


async def test_an_empty_database_is_prepared_and_stays_so(database: Database) -> None:
    for _ in range(2):
        await prepare(database, migrations)
    assert await stamp(database) == "0002"
    await database.write(lambda c: c.execute(sa.insert(folder).values(id="f1", name="inbox")))
    assert await rows(database, folder) == [("f1", "inbox")]


async def test_an_older_database_is_upgraded_with_what_is_in_it(database: Database) -> None:
    await database.migrate(first_version_with_rows)
    await prepare(database, migrations)
    assert await stamp(database) == "0002"
    assert await rows(database, folder) == [("f1", "inbox")]
    assert await rows(database, note) == [("f1", 1, "OPEN", "hello", None)]


async def test_databases_of_one_process_are_upgraded_side_by_side(tmp_path: Path) -> None:
    async def upgrade_one(name: str) -> tuple[str, list[Any]]:
        async with Database(f"sqlite:///{tmp_path / name}.db", "test") as database:
            await database.migrate(first_version_with_rows)
            await prepare(database, migrations)
            return await stamp(database), await rows(database, folder)

    upgraded = await asyncio.gather(*map(upgrade_one, "abcdefgh"))
    assert upgraded == [("0002", [("f1", "inbox")])] * 8


async def test_a_migration_that_fails_changes_nothing(database: Database) -> None:
    await database.migrate(first_version_with_rows)
    clash = sa.text("INSERT INTO folder VALUES ('f2', 'inbox')")
    await database.write(lambda c: c.execute(clash))
    before = await database.read(schema)
    with pytest.raises(IntegrityError):  # two folders of one name
        await prepare(database, migrations)
    assert await stamp(database) == "0001"
    assert await database.read(schema) == before


@pytest.mark.parametrize(
    ("contracts", "is_usable"),
    [
        ("", True),
        (version("hermes-services"), True),  # this one did without it already
        ("99.0.0", False),
    ],
)
async def test_a_version_starts_on_newer_tables_unless_what_it_needs_was_taken_away(
    contracts: str, database: Database, tmp_path: Path, *, is_usable: bool
) -> None:
    await database.migrate(first_version_with_rows)
    await prepare(database, migrations)
    later = await asyncio.to_thread(later_version, tmp_path, contracts)
    await prepare(database, later)
    assert await stamp(database) == later.HEAD
    before = await database.read(schema)
    if not is_usable:
        with pytest.raises(DatabaseMismatch, match=r"0003, is newer than this version.* backup"):
            await prepare(database, migrations)
    else:
        await prepare(database, migrations)
        assert await rows(database, folder) == [("f1", "inbox")]
    # Whatever the older one did, the newer one finds what it made.
    assert await database.read(schema) == before
    assert await stamp(database) == later.HEAD


def later_version(folder: Path, contracts: str) -> ModuleType:
    """Make the migrations of a later version, which ends in a step that may take something away."""
    made = folder / "later"
    shutil.copytree(Path(migrations.__file__).parent, made)
    oldest = contracts or migrations.OLDEST_RELEASE
    (made / "__init__.py").write_text(
        f'from tests.sample.schema import metadata\nHEAD, OLDEST_RELEASE = "0003", "{oldest}"\n'
    )
    text = _CONTRACT.format(contracts) if contracts else _EXPAND
    (made / "versions" / "v0003_later.py").write_text(_LATER + text)
    spec = spec_from_file_location("later", made / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_database_of_another_program_is_refused(database: Database) -> None:
    await database.migrate(lambda c: c.execute(sa.text("CREATE TABLE theirs (id INTEGER)")))
    with pytest.raises(DatabaseMismatch, match="another program"):
        await prepare(database, migrations)


async def test_replicas_that_start_together_upgrade_once(empty_postgres_url: str) -> None:
    async def start() -> None:
        async with Database(empty_postgres_url, "test") as replica:
            await prepare(replica, migrations)

    await asyncio.gather(*[start() for _ in range(3)])
    async with Database(empty_postgres_url, "test") as database:
        assert await stamp(database) == "0002"


def test_a_new_file_needs_no_alembic(sqlite_url: str) -> None:
    command = [sys.executable, "-c", _FRESH, sqlite_url]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert run.stdout == "set()\n"
