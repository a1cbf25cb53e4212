"""Files of profiles, and the documents among them, as rows."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection

from agent_service.storage.profile_locks import RowLocks
from agent_service.storage.profiles import MAX_DOCUMENT_BYTES, Document
from agent_service.storage.schema import profile_file
from services.clock import Clock
from services.database import Database, upsert
from services.errors import FailedPrecondition
from services.home.paths import HomePaths

_OWNERS = 0o600

_PUT = upsert(profile_file, ["profile", "path"], ["data", "size_bytes", "mode", "modified_at_ns"])


class Fact(Struct, frozen=True):
    """A file without its content."""

    path: str
    size_bytes: int
    mode: int
    modified_at_ns: int


def _is_file(profile: str, path: str) -> sa.ColumnElement[bool]:
    return sa.and_(profile_file.c.profile == profile, profile_file.c.path == path)


def data_of(conn: Connection, profile: str, path: str) -> bytes | None:
    """Return a file's content, or None."""
    return conn.scalar(sa.select(profile_file.c.data).where(_is_file(profile, path)))


def fact_of(conn: Connection, profile: str, path: str) -> Fact | None:
    """Return a file without its content, or None."""
    return next(iter(_facts(conn, _is_file(profile, path))), None)


def all_of(conn: Connection, profile: str, folder: str = "") -> Sequence[Fact]:
    """Return a profile's files, or those in a folder, whose name ends with a slash."""
    is_inside = profile_file.c.path.startswith(folder, autoescape=True)
    return _facts(conn, sa.and_(profile_file.c.profile == profile, is_inside))


def _facts(conn: Connection, which: sa.ColumnElement[bool]) -> Sequence[Fact]:
    columns = [profile_file.c[name] for name in Fact.__struct_fields__]
    rows = conn.execute(sa.select(*columns).where(which).order_by(profile_file.c.path))
    return [Fact(*row) for row in rows]


def put(
    conn: Connection, profile: str, path: str, data: bytes, now: datetime, mode: int | None = None
) -> None:
    """Write a file; without a new mode it keeps its permissions."""
    before, now_ns = fact_of(conn, profile, path), _ns(now)
    row = {
        "profile": profile,
        "path": path,
        "data": data,
        "size_bytes": len(data),
        "mode": mode or (_OWNERS if before is None else before.mode),
        "modified_at_ns": now_ns if before is None else max(now_ns, before.modified_at_ns + 1),
    }
    conn.execute(_PUT, row)


def remove(conn: Connection, profile: str, path: str) -> None:
    """Remove a file if it exists."""
    conn.execute(sa.delete(profile_file).where(_is_file(profile, path)))


def move(conn: Connection, profile: str, path: str, target: str, now: datetime) -> None:
    """Rename a file."""
    file = sa.update(profile_file).where(_is_file(profile, path))
    conn.execute(file.values(path=target, modified_at_ns=_ns(now)))


def profiles(conn: Connection) -> Sequence[str]:
    """Return the profiles that have files."""
    named = sa.select(profile_file.c.profile).distinct()
    return conn.scalars(named.order_by(profile_file.c.profile)).all()


def obstacle(conn: Connection, profile: str, path: str) -> str:
    """Return why a file cannot be at a path; empty if it can."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        if fact_of(conn, profile, above) is not None:
            return f"{above} is a file"
    return f"{path} is a folder" if all_of(conn, profile, f"{path}/") else ""


def _ns(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000_000)


class RowProfiles:
    """Documents that every replica sees; one at a time may change a document."""

    def __init__(self, home: HomePaths, database: Database, locks: RowLocks, clock: Clock) -> None:
        self._home = home
        self._database = database
        self._locks = locks
        self._clock = clock

    async def read(self, profile: str, *names: str) -> list[bytes]:
        named = self._home.profile(profile).name

        def read(conn: Connection) -> list[bytes]:
            return [_read(conn, named, name) for name in names]

        return await self._database.read(read)

    @asynccontextmanager
    async def opened(self, profile: str, name: str) -> AsyncGenerator[Document]:
        """Open a document for a change, under a lease."""
        named = self._home.profile(profile).name
        async with self._locks.hold(named, name) as lease:

            async def write(name: str, data: bytes) -> None:
                def fenced(conn: Connection) -> None:
                    # A holder whose lease expired and was taken must not write.
                    self._locks.fence(conn, lease)
                    put(conn, named, name, data, self._clock.now())

                await self._database.write(fenced)

            (found,) = await self.read(named, name)
            yield Document(name, found, write)


def _read(conn: Connection, profile: str, name: str) -> bytes:
    fact = fact_of(conn, profile, name)
    if fact is None:
        return b""
    if fact.size_bytes > MAX_DOCUMENT_BYTES:
        raise FailedPrecondition(f"{name} is larger than {MAX_DOCUMENT_BYTES} bytes")
    return data_of(conn, profile, name) or b""
