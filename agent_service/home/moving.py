"""Moves homes: what goes out of them, and what has to follow when files have come in."""

import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import PurePosixPath

from msgspec import Struct

from agent_service.histories import Histories
from agent_service.home.base import Existing, HomeStore, Incoming, Taken
from agent_service.memory.store import MemoryStore
from services.errors import InvalidArgument, NotFound
from services.home_files import HomeFile, LeftOut, is_secret

_SESSION = re.compile(r"sessions/[^/]+\.json")

_log = logging.getLogger(__name__)


class Outgoing(Struct, frozen=True):
    """What an export has."""

    profiles: Sequence[str]
    files: Sequence[HomeFile]
    left_out: Sequence[LeftOut]


class Moving:
    """Lets homes out and in."""

    def __init__(self, homes: HomeStore, memories: MemoryStore, histories: Histories) -> None:
        self._homes = homes
        self._memories = memories
        self._histories = histories

    async def outgoing(self, wanted: Sequence[str], *, with_secrets: bool) -> Outgoing:
        """What goes out of some profiles, or of all; NotFound where there is no such profile."""
        profiles = await self._homes.profiles()
        if unknown := [name for name in wanted if name not in profiles]:
            raise NotFound(f"there is no profile {unknown[0]}")
        files: list[HomeFile] = []
        left_out: list[LeftOut] = []
        for profile in wanted or profiles:
            found = await self._homes.contents(profile)
            left_out += found.left_out
            for file in found.files:
                if is_secret(file.path) and not with_secrets:
                    left_out.append(LeftOut(profile, file.path, "it holds secrets"))
                else:
                    files.append(file)
        return Outgoing(wanted or profiles, files, left_out)

    def read(self, file: HomeFile) -> AsyncGenerator[bytes]:
        """A file in pieces."""
        return self._homes.read(file)

    def incoming(self) -> AbstractAsyncContextManager[Incoming]:
        """Take files."""
        return self._homes.incoming()

    async def put(
        self, incoming: Incoming, profiles: Sequence[str], existing: Existing, by: str
    ) -> tuple[Taken, int]:
        """Put what came in its place; also how many sessions were new among it."""
        before = {profile: await self._memories.texts(profile) for profile in profiles}
        taken = await incoming.put(existing, dry_run=False)
        for profile, texts in before.items():
            await self._memories.note_import(profile, texts, by)
        return taken, await self._histories.take_new() + await self._take_sessions(taken)

    async def _take_sessions(self, taken: Taken) -> int:
        """Take the sessions that stand in no folder here; those that do were taken from there."""
        count = 0
        for profile, path in taken.written:
            if _SESSION.fullmatch(path):
                file = HomeFile(profile, path, 0, 0)
                data = b"".join([piece async for piece in self._homes.read(file)])
                try:
                    found = await self._histories.take(profile, data, PurePosixPath(path).stem)
                except InvalidArgument as error:
                    _log.warning("%s of %s is not taken: %s", path, profile, error)
                else:
                    count += found.is_new
        return count
