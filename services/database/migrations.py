"""Brings a service's database to the schema of this version.

A package of migrations has in its `__init__.py` the `metadata`, `HEAD = "0002"` and `OLDEST_RELEASE
= "0.1.0"`, and under `versions/` the numbered Alembic revisions. New databases are made from the
MetaData and current ones recognised by their stamp, without the slow import of Alembic.

During a rolling update, replicas of the previous release run and restart beside the new one, so the
oldest release that can use the tables is stored beside the stamp.
"""

import logging
import re
import threading
from collections.abc import Sequence
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
    "oldest_release", sa.MetaData(), sa.Column("release", sa.String(32), primary_key=True)
)
"""One row with the first release that needs nothing of what was removed."""


_upgrading = threading.Lock()
"""Serializes the upgrades of this process, as `alembic.op` is one for all threads."""


class _Stamp(Struct, frozen=True):
    revision: str | None
    oldest_release: str | None


async def prepare(database: Database, migrations: ModuleType) -> None:
    """Create or upgrade the tables; raise DatabaseMismatch if this version cannot use them."""
    if await revision(database) != migrations.HEAD:
        await database.migrate(partial(bring_up, migrations=migrations))


async def revision(database: Database) -> str | None:
    """Return the revision of a database's tables; None if it has none of ours."""
    return await database.read(_current)


def upgrade(connection: sa.Connection, migrations: ModuleType, to: str = "heads") -> None:
    """Run the missing migrations up to a revision; newer tables stay as they are."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationStep
    from alembic.script import ScriptDirectory

    stamp = _Stamp(_current(connection), _only(connection, _oldest))
    if stamp.revision is not None and stamp.revision > migrations.HEAD:
        _check_newer(stamp)
        return
    scripts = ScriptDirectory(str(files(migrations)))

    def steps(applied: Sequence[str], _: MigrationContext) -> Sequence[MigrationStep]:
        missing = scripts.iterate_revisions(to, tuple(applied) or "base")
        found = [MigrationStep.upgrade_from_script(scripts.revision_map, it) for it in missing]
        return found[::-1]

    options: dict[str, Any] = {"fn": steps, "render_as_batch": True}
    context = MigrationContext.configure(connection, opts=options)
    with _upgrading, Operations.context(context):
        context.run_migrations()
    _note_oldest(connection, migrations)


def _check_newer(stamp: _Stamp) -> None:
    """Accept newer tables only if they have all that this version needs."""
    oldest = stamp.oldest_release
    if oldest is None or _parts(oldest) > _parts(_release()):
        raise DatabaseMismatch(
            f"the database's schema, {stamp.revision}, is newer than this version of Hermes, "
            f"{_release()}, and may lack what it needs; install the version that used it last, or "
            "bring back the backup from before that"
        )
    _log.warning("the tables, %s, are newer than this version, which can use them", stamp.revision)


def bring_up(connection: sa.Connection, migrations: ModuleType) -> None:
    """Create missing tables and upgrade older ones."""
    if _current(connection) is not None:
        upgrade(connection, migrations)
        return
    if sa.inspect(connection).get_table_names():
        raise DatabaseMismatch(
            "the database holds tables of another program; choose another file or database"
        )
    migrations.metadata.create_all(connection, checkfirst=False)
    _version.create(connection)
    connection.execute(sa.insert(_version).values(version_num=migrations.HEAD))
    _note_oldest(connection, migrations)


def _note_oldest(connection: sa.Connection, migrations: ModuleType) -> None:
    _oldest.create(connection, checkfirst=True)
    connection.execute(sa.delete(_oldest))
    connection.execute(sa.insert(_oldest).values(release=migrations.OLDEST_RELEASE))


def _release() -> str:
    return version("hermes-services")


def _parts(release: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", release)[:3]]


def _current(connection: sa.Connection) -> str | None:
    return _only(connection, _version)


def _only(connection: sa.Connection, table: sa.Table) -> str | None:
    if not sa.inspect(connection).has_table(table.name):
        return None
    return connection.execute(sa.select(*table.columns)).scalar_one_or_none()
