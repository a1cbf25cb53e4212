"""Bring a service's database to the schema of this version.

A service has one MetaData, which is the schema, and a package of migrations that lead there:
`HEAD = "0002"` and `OLDEST_RELEASE = "0.1.0"` in its `__init__.py`, and Alembic's revision files
under `versions/`. A test holds them together. A new SQLite file is made from the MetaData and
stamped, and one that is up to date is recognised by its stamp, both without Alembic, whose import
alone takes longer than either.

Replicas of the version before run on beside the new one, and start again: the oldest release that
the tables have all for is noted beside the stamp, so that an older version knows whether it is one.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from types import ModuleType
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from services.database import Database, DatabaseMismatch

_log = logging.getLogger(__name__)

_version = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's own table, as Alembic makes it."""

_oldest = sa.Table(
    "oldest_release",
    sa.MetaData(),
    sa.Column("release", sa.String(32), primary_key=True),
)
"""In its only row the first release that did without all that was taken away."""


class Standing(StrEnum):
    """How tables stand to this version."""

    SAME = "same"
    OLDER = "older"
    """They are to be brought up to date, or made."""
    NEWER = "newer"
    """They have what this version needs, and more."""
    TOO_NEW = "too_new"
    """What this version needs may have been taken away."""


class _Stamp(Struct, frozen=True):
    revision: str | None
    oldest_release: str | None


async def prepare(database: Database, metadata: sa.MetaData, migrations: ModuleType) -> None:
    """Make or upgrade the tables; raise DatabaseMismatch for those that this version cannot use."""
    if await revision(database) != migrations.HEAD:
        await database.migrate(partial(_bring_up, metadata, migrations))


async def revision(database: Database) -> str | None:
    """What the tables of a database were last brought to; None where there are none of ours."""
    return await database.read(_current)


async def standing(database: Database, migrations: ModuleType) -> Standing:
    """Whether this version can use the tables of a database, or is to bring them up to date."""
    stamp = await database.read(_stamp)
    return await asyncio.to_thread(_standing, stamp, migrations)


def upgrade(connection: sa.Connection, migrations: ModuleType, to: str = "heads") -> None:
    """Run the migrations that this database has not had, up to a revision; none on a newer one."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationStep
    from alembic.script import ScriptDirectory

    stamp = _stamp(connection)
    how = _standing(stamp, migrations)
    if how is Standing.TOO_NEW:
        raise DatabaseMismatch(too_new(stamp.revision))
    if how is Standing.NEWER:
        _log.warning(
            "the tables, %s, are newer than this version, which can use them", stamp.revision
        )
        return
    scripts = ScriptDirectory(str(files(migrations)))

    def steps(applied: Sequence[str], _: MigrationContext) -> Sequence[MigrationStep]:
        missing = scripts.iterate_revisions(to, tuple(applied) or "base")
        found = [MigrationStep.upgrade_from_script(scripts.revision_map, it) for it in missing]
        return found[::-1]

    options: dict[str, Any] = {"fn": steps, "render_as_batch": True}
    context = MigrationContext.configure(connection, opts=options)
    with Operations.context(context):
        context.run_migrations()
    _note_oldest(connection, migrations)


def too_new(revision: str | None) -> str:
    """What to tell of tables that this version cannot use."""
    return (
        f"the database's schema, {revision}, is newer than this version of Hermes, {_release()}, "
        "and may lack what it needs; install the version that used it last, or bring back the "
        "backup from before that"
    )


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
        _note_oldest(connection, migrations)
    else:
        upgrade(connection, migrations)


def _note_oldest(connection: sa.Connection, migrations: ModuleType) -> None:
    _oldest.create(connection, checkfirst=True)
    connection.execute(sa.delete(_oldest))
    connection.execute(sa.insert(_oldest).values(release=migrations.OLDEST_RELEASE))


def _standing(stamp: _Stamp, migrations: ModuleType) -> Standing:
    if stamp.revision == migrations.HEAD:
        return Standing.SAME
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(files(migrations)))
    if stamp.revision in {None, *(it.revision for it in scripts.walk_revisions())}:
        return Standing.OLDER
    oldest = stamp.oldest_release
    is_usable = oldest is not None and _parts(oldest) <= _parts(_release())
    return Standing.NEWER if is_usable else Standing.TOO_NEW


def _release() -> str:
    return version("hermes-services")


def _parts(release: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", release)[:3]]


def _stamp(connection: sa.Connection) -> _Stamp:
    return _Stamp(_current(connection), _only(connection, _oldest))


def _current(connection: sa.Connection) -> str | None:
    return _only(connection, _version)


def _only(connection: sa.Connection, table: sa.Table) -> str | None:
    if not sa.inspect(connection).has_table(table.name):
        return None
    return connection.execute(sa.select(*table.columns)).scalar_one_or_none()
