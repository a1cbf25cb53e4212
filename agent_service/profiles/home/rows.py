"""Homes stored as rows."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from agent_service.profiles.home.base import (
    PIECE_BYTES,
    Existing,
    ImportedFiles,
    Incoming,
    changed_together,
    check_places,
    decided,
    forget_old,
    incoming_to,
    kept_mode,
)
from agent_service.profiles.skills.rows import LOCKED
from agent_service.storage import profile_files as files
from agent_service.storage.profile_locks import RowLocks
from services.clock import Clock
from services.database import Database
from services.database.leases import Lease
from services.errors import LimitExceeded
from services.home.files import Contents, HomeFile, SkippedFile, is_secret
from services.home.paths import HomePaths

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_HOME_BYTES = 256 * 1024 * 1024
"""The limit for one import, which is in memory while it is put in place."""
NOT_KEPT = "it holds secrets, which are not kept in the database: give them to the services"


class _File(Struct, frozen=True):
    data: bytes
    mode: int


class RowHomes:
    """All files of all profiles in the database."""

    def __init__(self, home: HomePaths, database: Database, locks: RowLocks, clock: Clock) -> None:
        self._home = home
        self._database = database
        self._locks = locks
        self._clock = clock

    async def profiles(self) -> Sequence[str]:
        own = self._home.name
        found = await self._database.read(files.profiles)
        return [own, *(name for name in found if name != own)]

    async def contents(self, profile: str) -> Contents:
        name = self._home.profile(profile).name
        found = await self._database.read(lambda conn: files.all_of(conn, name))
        listed = [HomeFile(name, one.path, one.size_bytes, one.mode) for one in found]
        # The database may sort text by the rules of a language.
        return Contents(sorted(listed, key=lambda file: file.path))

    async def read(self, file: HomeFile) -> AsyncGenerator[bytes]:
        found = await self._database.read(lambda conn: files.data_of(conn, file.profile, file.path))
        data = found or b""
        for at in range(0, len(data), PIECE_BYTES):
            yield data[at : at + PIECE_BYTES]

    def incoming(self) -> AbstractAsyncContextManager[Incoming]:
        return incoming_to(self._home)

    async def put(self, incoming: Incoming, existing: Existing, *, dry_run: bool) -> ImportedFiles:
        """Put files in place in one transaction."""
        await incoming.flush()
        coming, left_out = await asyncio.to_thread(_read, incoming)
        async with AsyncExitStack() as stack:
            held = [] if dry_run else await self._lock(stack, coming)

            def put(conn: Connection) -> ImportedFiles:
                for lease in held:
                    self._locks.fence(conn, lease)
                taken = decided(_compared(conn, coming), existing)
                if not dry_run:
                    self._place(conn, {key: coming[key] for key in taken.written})
                return taken

            return replace(await self._database.write(put), left_out=left_out)

    async def recover(self) -> None:
        await asyncio.to_thread(forget_old, self._home)
        await self._locks.recover()

    async def _lock(
        self, stack: AsyncExitStack, coming: Collection[tuple[str, str]]
    ) -> list[Lease]:
        names = [
            (who, LOCKED if name == "skills" else name) for who, name in changed_together(coming)
        ]
        return [await stack.enter_async_context(self._locks.hold(*name)) for name in names]

    def _place(self, conn: Connection, wanted: Mapping[tuple[str, str], _File]) -> None:
        now = self._clock.now()
        for (profile, path), file in wanted.items():
            files.put(conn, profile, path, file.data, now, file.mode)


def _read(incoming: Incoming) -> tuple[dict[tuple[str, str], _File], list[SkippedFile]]:
    coming: dict[tuple[str, str], _File] = {}
    left_out: list[SkippedFile] = []
    left = MAX_HOME_BYTES
    for (profile, path), (file, aside) in incoming.files.items():
        if is_secret(path):
            left_out.append(SkippedFile(profile, path, NOT_KEPT))
            continue
        size = aside.stat().st_size
        left -= size
        if size > MAX_FILE_BYTES or left < 0:
            most = f"{MAX_FILE_BYTES >> 20} MiB a file, and {MAX_HOME_BYTES >> 20} MiB in all"
            raise LimitExceeded(f"{path} is too much; leave it out: {most}")
        coming[profile, path] = _File(aside.read_bytes(), kept_mode(file))
    return coming, left_out


def _compared(conn: Connection, coming: Mapping[tuple[str, str], _File]) -> ImportedFiles:
    added: list[tuple[str, str]] = []
    same: list[tuple[str, str]] = []
    other: list[tuple[str, str]] = []
    for key, file in coming.items():
        there = files.data_of(conn, *key)
        if there is None:
            added.append(key)
        else:
            (same if there == file.data else other).append(key)
    taken = set(coming)
    for profile in {profile for profile, _ in added}:
        taken |= {(profile, one.path) for one in files.all_of(conn, profile)}
    check_places(added, taken)
    return ImportedFiles(added, sorted(other), (), same)
