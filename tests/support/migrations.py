"""Hold a service's migrations to its MetaData: both ways must lead to the same schema."""

import asyncio
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import sqlalchemy as sa
from alembic.script import ScriptDirectory

from services.database import Database
from services.database.migrations import upgrade
from tests.support.postgres import PostgresServer

_STAMPS = ("alembic_version", "oldest_release")
FIRST_RELEASE = "0.1.0"


async def assert_migrations_match(
    migrations: ModuleType, folder: Path, postgres: PostgresServer
) -> None:
    """Fail unless the migrations end at HEAD with the schema that the MetaData describes."""
    scripts = await asyncio.to_thread(ScriptDirectory, str(files(migrations)))
    heads = await asyncio.to_thread(scripts.get_heads)
    assert heads == [migrations.HEAD], "HEAD is not the last migration"
    assert await asyncio.to_thread(_oldest_release, scripts) == migrations.OLDEST_RELEASE
    await _assert_same(migrations, *[f"sqlite:///{folder}/{n}.db" for n in range(2)])
    with postgres.database() as one, postgres.database() as other:
        await _assert_same(migrations, one, other)


def _oldest_release(scripts: ScriptDirectory) -> str:
    """Return the latest release that a contract step waited for."""
    named = (getattr(it.module, "contracts", FIRST_RELEASE) for it in scripts.walk_revisions())
    return max(named, key=lambda release: [int(part) for part in release.split(".")])


async def _assert_same(migrations: ModuleType, one: str, other: str) -> None:
    async with Database(one, "test") as upgraded, Database(other, "test") as created:
        await upgraded.migrate(partial(upgrade, migrations=migrations))
        await created.migrate(migrations.metadata.create_all)
        came, described = await upgraded.read(schema), await created.read(schema)
        assert came == described


def schema(connection: sa.Connection) -> dict[str, Any]:
    """Return all that there is in a database, in a form that can be compared."""
    inspector = sa.inspect(connection)
    tables = [name for name in inspector.get_table_names() if name not in _STAMPS]
    return {name: _table(inspector, name) for name in tables} | {
        "definitions": _definitions(connection)
    }


def _table(inspector: sa.Inspector, name: str) -> dict[str, Any]:
    """Return what a table has; the order of its columns means nothing."""
    columns: list[Any] = [{**it, "type": str(it["type"])} for it in inspector.get_columns(name)]
    foreign_keys: list[Any] = [{**it, "name": ""} for it in inspector.get_foreign_keys(name)]
    return {
        "columns": _sorted(columns),
        "primary key": inspector.get_pk_constraint(name)["constrained_columns"],
        "foreign keys": _sorted(foreign_keys),
        "unique": sorted(it["column_names"] for it in inspector.get_unique_constraints(name)),
        "checks": _sorted(list(inspector.get_check_constraints(name))),
    }


def _definitions(connection: sa.Connection) -> list[str]:
    """Return what the database itself says of indexes, triggers, views and virtual tables."""
    if connection.dialect.name == "sqlite":
        query = (
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name NOT IN :stamps"
            " AND (type != 'table' OR sql LIKE 'CREATE VIRTUAL%')"
        )
    else:
        query = (
            "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()"
            " AND tablename NOT IN :stamps"
            " UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"
        )
    stamps: sa.BindParameter[str] = sa.bindparam("stamps", _STAMPS, sa.String, expanding=True)
    found = connection.execute(sa.text(query).bindparams(stamps)).scalars()
    return sorted(" ".join(text.split()) for text in found)


def _sorted(items: list[Any]) -> list[str]:
    return sorted(repr(sorted(item.items())) for item in items)
