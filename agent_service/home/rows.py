"""Homes as rows: what comes in is put in its place by one transaction."""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.home.base import PIECE_BYTES, Existing, Taken, check_places, refuse
from agent_service.skills.rows import LOCKED
from agent_service.storage import profile_files as files
from agent_service.storage.profile_locks import RowLocks
from agent_service.storage.profile_rows import NS
from agent_service.storage.profile_schema import profile_file, profile_incoming
from services.clock import Clock
from services.database import Database, upsert
from services.errors import InvalidArgument, LimitExceeded
from services.home import HomePaths
from services.home_files import Contents, HomeFile, LeftOut, check_path, is_secret
from services.ids import new_id
from services.leases import Lease

MAX_FILE_BYTES = 64 * 1024 * 1024
FORGOTTEN_AFTER = timedelta(days=1)
NOT_KEPT = "it holds secrets, which are not kept in the database: give them to the services"

_MEMORIES = ("memories/MEMORY.md", "memories/USER.md")
_KEY = ["profile", "path"]
_VALUES = ["data", "size_bytes", "mode", "modified_at_ns"]
_PUT = upsert(profile_file, _KEY, _VALUES)


class RowHomes:
    """All files of all profiles, in the database."""

    def __init__(self, home: HomePaths, database: Database, locks: RowLocks, clock: Clock) -> None:
        self._home = home
        self._database = database
        self._locks = locks
        self._clock = clock

    async def profiles(self) -> Sequence[str]:
        """The profiles that have files, and the home's own."""
        own = self._home.name
        found = await self._database.read(files.profiles)
        return [own, *(name for name in found if name != own)]

    async def contents(self, profile: str) -> Contents:
        """What moves with a profile."""
        name = self._home.profile(profile).name
        found = await self._database.read(lambda conn: files.all_of(conn, name))
        listed = [HomeFile(name, one.path, one.size_bytes, one.mode) for one in found]
        # The database may order text by a language's rules.
        return Contents(sorted(listed, key=lambda file: file.path))

    async def read(self, file: HomeFile) -> AsyncGenerator[bytes]:
        """A file in pieces."""
        found = await self._database.read(lambda conn: files.data_of(conn, file.profile, file.path))
        data = found or b""
        for at in range(0, len(data), PIECE_BYTES):
            yield data[at : at + PIECE_BYTES]

    @asynccontextmanager
    async def incoming(self) -> AsyncGenerator["_Incoming"]:
        """Take files by way of a table of their own."""
        incoming = _Incoming(self._home, self._database, self._locks, self._clock)
        try:
            yield incoming
        finally:
            await incoming.forget()

    async def recover(self) -> None:
        """Forget what was under way when a process died, and free what this one held."""
        long_ago = self._clock.now() - FORGOTTEN_AFTER
        old = sa.delete(profile_incoming).where(profile_incoming.c.created_at < long_ago)
        await self._database.write(lambda conn: conn.execute(old))
        await self._locks.recover()


class _Incoming:
    """Files that wait in a table."""

    def __init__(self, home: HomePaths, database: Database, locks: RowLocks, clock: Clock) -> None:
        self._home = home
        self._database = database
        self._locks = locks
        self._clock = clock
        self._id = new_id("imp")
        self._known: set[tuple[str, str]] = set()
        self._left_out: list[LeftOut] = []
        self._file: HomeFile | None = None
        self._data = bytearray()

    async def add(self, file: HomeFile) -> None:
        """Begin a file."""
        check_path(file.profile, file.path)
        profile = self._home.profile(file.profile).name
        if (profile, file.path) in self._known:
            raise InvalidArgument(f"{file.path} came twice", fields={"file.path": "each once"})
        await self._flush()
        self._known.add((profile, file.path))
        self._file = HomeFile(profile, file.path, file.size_bytes, file.mode)

    async def write(self, data: bytes) -> None:
        """Add to the file."""
        if self._file is None:
            raise InvalidArgument("data came before a file", fields={"data": "after a file"})
        self._data += data
        if len(self._data) > MAX_FILE_BYTES:
            most = MAX_FILE_BYTES >> 20
            raise LimitExceeded(f"{self._file.path} has more than {most} MiB; leave it out")

    async def put(self, existing: Existing, *, dry_run: bool) -> Taken:
        """Put them in their places."""
        await self._flush()
        async with AsyncExitStack() as stack:
            held = [] if dry_run else await self._lock(stack)
            now_ns = int(self._clock.now().timestamp() * NS)

            def put(conn: Connection) -> Taken:
                for lease in held:
                    self._locks.fence(conn, lease)
                taken = self._compared(conn)
                if existing is Existing.REFUSE:
                    refuse(taken.replaced)
                if existing is Existing.KEEP:
                    taken = Taken(taken.added, (), taken.replaced, taken.unchanged)
                if not dry_run:
                    self._place(conn, set(taken.written), now_ns)
                return taken

            taken = await self._database.write(put)
        left_out = tuple(self._left_out)
        return Taken(taken.added, taken.replaced, taken.kept, taken.unchanged, left_out)

    async def forget(self) -> None:
        """Clear away what came."""
        mine = sa.delete(profile_incoming).where(profile_incoming.c.import_id == self._id)
        await self._database.write(lambda conn: conn.execute(mine))

    async def _flush(self) -> None:
        file, data = self._file, bytes(self._data)
        self._file, self._data = None, bytearray()
        if file is None:
            return
        if is_secret(file.path):
            self._known.discard((file.profile, file.path))
            self._left_out.append(LeftOut(file.profile, file.path, NOT_KEPT))
            return
        row = {
            "import_id": self._id,
            "profile": file.profile,
            "path": file.path,
            "data": data,
            "size_bytes": len(data),
            "mode": (file.mode & 0o777) | 0o600,
            "created_at": self._clock.now(),
        }
        await self._database.write(lambda conn: conn.execute(sa.insert(profile_incoming), row))

    async def _lock(self, stack: AsyncExitStack) -> list[Lease]:
        """Hold what the agent itself changes, in an order that everybody keeps to."""
        held: list[Lease] = []
        for profile in sorted({profile for profile, _ in self._known}):
            has_skills = any(
                owner == profile and path.startswith("skills/") for owner, path in self._known
            )
            names = [LOCKED] if has_skills else []
            names += [name for name in _MEMORIES if (profile, name) in self._known]
            held += [
                await stack.enter_async_context(self._locks.held(profile, name)) for name in names
            ]
        return held

    def _compared(self, conn: Connection) -> Taken:
        new, old = profile_incoming.c, profile_file.c
        found = conn.execute(
            sa.select(new.profile, new.path, (old.data == new.data).label("same"))
            .join_from(
                profile_incoming,
                profile_file,
                sa.and_(old.profile == new.profile, old.path == new.path),
            )
            .where(new.import_id == self._id)
        ).all()
        same = [(row.profile, row.path) for row in found if row.same]
        other = [(row.profile, row.path) for row in found if not row.same]
        added = sorted(self._known.difference(same, other))
        self._check_places(conn, added)
        return Taken(added, sorted(other), (), sorted(same))

    def _check_places(self, conn: Connection, added: Collection[tuple[str, str]]) -> None:
        """Refuse what could not be written into a folder."""
        there = set(self._known)
        for profile in {profile for profile, _ in added}:
            there |= {(profile, one.path) for one in files.all_of(conn, profile)}
        check_places(added, there)

    def _place(self, conn: Connection, wanted: Collection[tuple[str, str]], now_ns: int) -> None:
        new = profile_incoming.c
        for profile, path in wanted:
            mine = (new.import_id == self._id, new.profile == profile, new.path == path)
            row: Any = conn.execute(sa.select(profile_incoming).where(*mine)).one()
            before = files.fact_of(conn, profile, path)
            later = now_ns if before is None else max(now_ns, before.modified_at_ns + 1)
            values = {name: getattr(row, name) for name in ("data", "size_bytes", "mode")}
            conn.execute(
                _PUT, {"profile": profile, "path": path, **values, "modified_at_ns": later}
            )
