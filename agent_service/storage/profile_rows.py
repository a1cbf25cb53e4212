"""Documents of profiles as rows of the database."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy import Connection

from agent_service.storage import profile_files as files
from agent_service.storage.profile_locks import RowLocks
from agent_service.storage.profiles import MAX_DOCUMENT_BYTES
from services.clock import Clock
from services.database import Database
from services.errors import FailedPrecondition
from services.home import HomePaths
from services.leases import Lease

NS = 1_000_000_000


class RowProfiles:
    """Documents that every replica sees, each changed by one at a time."""

    def __init__(self, home: HomePaths, database: Database, locks: RowLocks, clock: Clock) -> None:
        self._home = home
        self._database = database
        self._locks = locks
        self._clock = clock

    async def read(self, profile: str, *names: str) -> list[bytes]:
        """Some documents, each whole; empty where there is none."""
        named = self._home.profile(profile).name

        def read(conn: Connection) -> list[bytes]:
            return [_read(conn, named, name) for name in names]

        return await self._database.read(read)

    @asynccontextmanager
    async def opened(self, profile: str, name: str) -> AsyncGenerator["_Row"]:
        """A document to change, under a lease."""
        named = self._home.profile(profile).name
        async with self._locks.held(named, name) as lease:
            (data,) = await self.read(named, name)
            yield _Row(self._database, self._locks, self._clock, lease, (named, name), data)


class _Row:
    """A document while it is held."""

    def __init__(
        self,
        database: Database,
        locks: RowLocks,
        clock: Clock,
        lease: Lease,
        place: tuple[str, str],
        data: bytes,
    ) -> None:
        self.data = data
        self._database = database
        self._locks = locks
        self._clock = clock
        self._lease = lease
        self._place = place

    async def replace(self, data: bytes) -> None:
        now_ns = int(self._clock.now().timestamp() * NS)

        def write(conn: Connection) -> None:
            # Who held it for so long that somebody else has it now writes nothing.
            self._locks.fence(conn, self._lease)
            files.put(conn, *self._place, data, now_ns)

        await self._database.write(write)
        self.data = data


def _read(conn: Connection, profile: str, name: str) -> bytes:
    fact = files.fact_of(conn, profile, name)
    if fact is None:
        return b""
    if fact.size_bytes > MAX_DOCUMENT_BYTES:
        raise FailedPrecondition(f"{name} is larger than {MAX_DOCUMENT_BYTES} bytes")
    return files.data_of(conn, profile, name) or b""
