"""Bring a service's database to the schema of this version.

A service has one MetaData, which is the schema, and a package of migrations that lead there:
`HEAD = "0002"` in its `__init__.py`, and Alembic's revision files under `versions/`. A test holds
the two together. A new SQLite file is made from the MetaData and stamped, and one that is up to
date is recognised by its stamp, both without Alembic, whose import alone takes longer than either.
"""

from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from types import ModuleType
from typing import Any

import sqlalchemy as sa

from services.database import Database, DatabaseMismatch

_version = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's own table, as Alembic makes it."""


async def prepare(database: Database, metadata: sa.MetaData, migrations: ModuleType) -> None:
    """Make or upgrade the tables; raise DatabaseMismatch for a schema that is not ours or newer."""
    if await revision(database) != migrations.HEAD:
        await database.migrate(partial(_bring_up, metadata, migrations))


async def revision(database: Database) -> str | None:
    """What the tables of a database were last brought to; None where there are none of ours."""
    return await database.read(_current)


def upgrade(connection: sa.Connection, migrations: ModuleType, to: str = "heads") -> None:
    """Run the migrations that this database has not had, up to a revision."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationStep
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(files(migrations)))
    current = _current(connection)
    if current is not None and current not in {it.revision for it in scripts.walk_revisions()}:
        raise DatabaseMismatch(
            f"the database's schema, {current}, is newer than this version of Hermes; "
            "install the version that used it last"
        )

    def steps(applied: Sequence[str], _: MigrationContext) -> Sequence[MigrationStep]:
        missing = scripts.iterate_revisions(to, tuple(applied) or "base")
        found = [MigrationStep.upgrade_from_script(scripts.revision_map, it) for it in missing]
        return found[::-1]

    options: dict[str, Any] = {"fn": steps, "render_as_batch": True}
    context = MigrationContext.configure(connection, opts=options)
    with Operations.context(context):
        context.run_migrations()


def _bring_up(metadata: sa.MetaData, migrations: ModuleType, connection: sa.Connection) -> None:
    is_new = _current(connection) is None
    if is_new and sa.inspect(connection).get_table_names():
        raise DatabaseMismatch(
            "the database holds tables of another program; choose another file or database"
        )
    if is_new and connection.dialect.name == "sqlite":
        metadata.create_all(connection, checkfirst=False)
        _version.create(connection)
        connection.execute(sa.insert(_version).values(version_num=migrations.HEAD))
    else:
        upgrade(connection, migrations)


def _current(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(_version.name):
        return None
    return connection.execute(sa.select(_version.c.version_num)).scalar_one_or_none()
