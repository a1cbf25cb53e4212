"""Skills in the database, which every replica sees."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from sqlalchemy import Connection

from agent_service.profiles.skills.files import (
    MAX_DEPTH,
    MAX_FILES,
    FileFact,
    FileRefused,
    LibraryBusy,
)
from agent_service.profiles.skills.names import is_support
from agent_service.storage import profile_files as files
from agent_service.storage.profile_locks import RowLocks
from services.clock import Clock
from services.database import Database
from services.database.leases import Lease
from services.errors import Unavailable

FOLDER = "skills/"
LOCKED = "skills/.usage.json"

_T = TypeVar("_T")


class RowSkillFiles:
    """The `skills` folder, or another one, of a profile in the database."""

    def __init__(
        self,
        database: Database,
        locks: RowLocks,
        clock: Clock,
        profile: str,
        place: tuple[str, str] = (FOLDER, LOCKED),
    ) -> None:
        """`place` is the folder with its slash, and the file whose lock covers it."""
        self._database = database
        self._locks = locks
        self._clock = clock
        self._profile = profile
        self._folder, self._locked = place
        self._lease: Lease | None = None

    async def tree(self) -> Mapping[str, FileFact]:
        found = await self._database.read(
            lambda conn: files.all_of(conn, self._profile, self._folder)
        )
        if len(found) > MAX_FILES:
            raise FileRefused(f"the library has more than {MAX_FILES:,} files")
        facts = {
            each.path.removeprefix(self._folder): FileFact(each.size_bytes, each.modified_at_ns)
            for each in found
        }
        return {
            path: fact
            for path, fact in facts.items()
            if path.count("/") < MAX_DEPTH and is_support(path, facts)
        }

    async def read(self, path: str, max_bytes: int) -> bytes | None:
        place = self._placed(path)

        def read(conn: Connection) -> bytes | None:
            fact = files.fact_of(conn, self._profile, place)
            if fact is not None and fact.size_bytes > max_bytes:
                raise FileRefused(f"{path} is longer than {max_bytes:,} bytes")
            return None if fact is None else files.data_of(conn, self._profile, place)

        return await self._database.read(read)

    async def write(self, path: str, data: bytes) -> None:
        place, now = self._placed(path), self._clock.now()

        def write(conn: Connection) -> None:
            if problem := files.obstacle(conn, self._profile, place):
                raise FileRefused(f"{path} cannot be written: {problem}")
            files.put(conn, self._profile, place, data, now)

        await self._write(write)

    async def remove(self, path: str) -> None:
        place = self._placed(path)
        await self._write(lambda conn: files.remove(conn, self._profile, place))

    async def move(self, source: str, target: str) -> None:
        left, right, now = self._placed(source), self._placed(target), self._clock.now()

        def move(conn: Connection) -> None:
            moved = files.all_of(conn, self._profile, f"{left}/")
            if not moved:
                raise FileRefused(f"{source} is not there")
            if files.obstacle(conn, self._profile, f"{right}/x") or files.all_of(
                conn, self._profile, f"{right}/"
            ):
                raise FileRefused(f"{target} is there already")
            for each in moved:
                inner = each.path.removeprefix(left)
                files.move(conn, self._profile, each.path, right + inner, now)

        await self._write(move)

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            try:
                held = self._locks.hold(self._profile, self._locked)
                self._lease = await stack.enter_async_context(held)
            except Unavailable as error:
                raise LibraryBusy(error.message) from None
            try:
                yield
            finally:
                self._lease = None

    async def _write(self, fn: Callable[[Connection], _T]) -> _T:
        lease = self._lease
        if lease is None:
            raise FileRefused("the library is changed by who holds it")

        def fenced(conn: Connection) -> _T:
            self._locks.fence(conn, lease)
            return fn(conn)

        return await self._database.write(fenced)

    def _placed(self, path: str) -> str:
        if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
            raise FileRefused(f"{path!r} is no path in the library")
        return self._folder + path
