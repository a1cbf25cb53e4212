"""Exports and imports homes, and updates what depends on imported files."""

import logging
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from agent_service.profiles.home.base import (
    PIECE_BYTES,
    Existing,
    HomeStore,
    ImportedFiles,
    Incoming,
)
from agent_service.profiles.memory.provider import SYNC_S, ExternalMemory, ProviderFailed
from agent_service.profiles.memory.store import MemoryStore
from agent_service.profiles.skills.bundled_skills import UnmodifiedSkills, encoded
from agent_service.profiles.skills.library import BUNDLED
from agent_service.profiles.skills.shelf import SkillShelves
from agent_service.sessions.history import Histories
from services.errors import InvalidArgument, NotFound
from services.home.files import HomeFile, SkippedFile, is_secret

_SKILLS = "skills/"
_MANIFEST = f"{_SKILLS}{BUNDLED}"
_SESSION = re.compile(r"sessions/[^/]+\.json")

_log = logging.getLogger(__name__)


class Outgoing(Struct, frozen=True):
    """The files of an export."""

    profiles: Sequence[str]
    files: Sequence[HomeFile]
    left_out: Sequence[SkippedFile]
    texts: Mapping[HomeFile, bytes]
    """Replacement content of files that are exported only in part."""


class HomeMover(Struct, frozen=True):
    """Exports and imports homes."""

    homes: HomeStore
    memories: MemoryStore
    histories: Histories
    shelves: SkillShelves
    external: ExternalMemory

    async def outgoing(self, wanted: Sequence[str], *, with_secrets: bool) -> Outgoing:
        """Return the files to export of some or all profiles; NotFound if a profile does not exist.

        Unmodified bundled skills are left out: the target has them already.
        """
        profiles = await self.homes.profiles()
        if unknown := [name for name in wanted if name not in profiles]:
            raise NotFound(f"there is no profile {unknown[0]}")
        files: list[HomeFile] = []
        left_out: list[SkippedFile] = []
        texts: dict[HomeFile, bytes] = {}
        for profile in wanted or profiles:
            own = await self.shelves.for_profile(profile).own()
            found = await self.homes.contents(profile)
            left_out += found.left_out
            for file in _theirs(found.files, own, texts):
                if is_secret(file.path) and not with_secrets:
                    left_out.append(SkippedFile(profile, file.path, "it holds secrets"))
                else:
                    files.append(file)
            match await self._external_file(profile):
                case SkippedFile() as missing:
                    left_out.append(missing)
                case (file, text):
                    key = (profile, file.path)
                    files = [*(f for f in files if (f.profile, f.path) != key), file]
                    texts[file] = text
                case None:
                    pass
        return Outgoing(wanted or profiles, files, left_out, texts)

    async def _external_file(self, profile: str) -> tuple[HomeFile, bytes] | SkippedFile | None:
        external, path = self.external, f"memories/{self.external.name}.json"
        if not external.is_on:
            return None
        try:
            text = await external.call(lambda: external.provider.backup(profile), SYNC_S)
        except ProviderFailed as error:
            return SkippedFile(profile, path, str(error))
        return HomeFile(profile, path, len(text), 0o600), text

    def read(self, outgoing: Outgoing, file: HomeFile) -> AsyncGenerator[bytes]:
        text = outgoing.texts.get(file)
        return self.homes.read(file) if text is None else _whole(text)

    def incoming(self) -> AbstractAsyncContextManager[Incoming]:
        return self.homes.incoming()

    async def plan(
        self, incoming: Incoming, profiles: Sequence[str], existing: Existing
    ) -> ImportedFiles:
        async with self._without_bundled(profiles):
            return await self.homes.put(incoming, existing, dry_run=True)

    async def put(
        self, incoming: Incoming, profiles: Sequence[str], existing: Existing, by: str
    ) -> tuple[ImportedFiles, int]:
        """Put the imported files in place; also return the number of new sessions."""
        before = {profile: await self.memories.texts(profile) for profile in profiles}
        async with self._without_bundled(profiles):
            taken = await self.homes.put(incoming, existing, dry_run=False)
        for profile, texts in before.items():
            await self.memories.note_import(profile, texts, by)
        taken_before = await self.histories.take_new()
        count, refused = await self._take_sessions(taken)
        return replace(taken, left_out=(*taken.left_out, *refused)), taken_before + count

    @asynccontextmanager
    async def _without_bundled(self, profiles: Sequence[str]) -> AsyncGenerator[None]:
        """Remove unmodified bundled skills for the import, which may need their places."""
        async with AsyncExitStack() as stack:
            for profile in sorted(set(profiles)):
                await stack.enter_async_context(self.shelves.for_profile(profile).without_bundled())
            yield

    async def _take_sessions(self, taken: ImportedFiles) -> tuple[int, list[SkippedFile]]:
        """Import the session files that were written, as sessions of the database.

        Returns the number of new sessions, and the invalid files, which stay in the home as files.
        """
        count, refused = 0, list[SkippedFile]()
        for profile, path in taken.written:
            if _SESSION.fullmatch(path):
                file = HomeFile(profile, path, 0, 0)
                data = b"".join([piece async for piece in self.homes.read(file)])
                try:
                    found = await self.histories.take(profile, data, PurePosixPath(path).stem)
                except InvalidArgument as error:
                    _log.warning("%s of %s is not taken: %s", path, profile, error)
                    why = f"it is kept as a file, but is no session: {error.message}"
                    refused.append(SkippedFile(profile, path, why))
                else:
                    count += found.is_new
        return count, refused


def _theirs(
    files: Sequence[HomeFile], own: UnmodifiedSkills | None, texts: dict[HomeFile, bytes]
) -> Iterator[HomeFile]:
    """Filter out unmodified bundled skills, also from the exported manifest."""
    for file in files:
        if own is None or file.path.removeprefix(_SKILLS) not in {*own.paths, BUNDLED}:
            yield file
        elif file.path == _MANIFEST and own.manifest:
            text = encoded(own.manifest)
            part = replace(file, size_bytes=len(text))
            texts[part] = text
            yield part


async def _whole(text: bytes) -> AsyncGenerator[bytes]:
    for at in range(0, len(text), PIECE_BYTES):
        yield text[at : at + PIECE_BYTES]
