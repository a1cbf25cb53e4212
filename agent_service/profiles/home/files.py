"""Homes stored as files; each file is replaced as a whole."""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import BinaryIO

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
from agent_service.profiles.skills.files import HomeSkillFiles
from agent_service.storage.profiles import FileProfiles
from services.errors import FailedPrecondition
from services.home.files import Contents, HomeFile, contents, obstacle, profiles_of
from services.home.paths import HomeError, HomePaths
from services.lifecycle import unbroken


class FileHomes:
    """All files of a home, which other programs may also read and change."""

    def __init__(self, home: HomePaths) -> None:
        self._home = home
        self._putting = asyncio.Lock()

    async def profiles(self) -> Sequence[str]:
        return await asyncio.to_thread(profiles_of, self._home)

    async def contents(self, profile: str) -> Contents:
        return await asyncio.to_thread(contents, self._home, profile)

    async def read(self, file: HomeFile) -> AsyncGenerator[bytes]:
        path = self._home.profile(file.profile).root / file.path
        stream = await asyncio.to_thread(_open, path)
        if stream is None:
            return
        try:
            while data := await asyncio.to_thread(stream.read, PIECE_BYTES):
                yield data
        finally:
            await asyncio.to_thread(stream.close)

    def incoming(self) -> AbstractAsyncContextManager[Incoming]:
        return incoming_to(self._home)

    async def put(self, incoming: Incoming, existing: Existing, *, dry_run: bool) -> ImportedFiles:
        await incoming.flush()
        async with self._putting, AsyncExitStack() as locks:
            if not dry_run:
                await self._lock(locks, incoming)
            taken = decided(await asyncio.to_thread(self._compared, incoming), existing)
            if not dry_run:
                await unbroken(asyncio.to_thread(self._place, incoming, taken.written))
        return taken

    async def recover(self) -> None:
        await asyncio.to_thread(forget_old, self._home)

    async def _lock(self, locks: AsyncExitStack, incoming: Incoming) -> None:
        documents = FileProfiles(self._home)
        for profile, name in changed_together(incoming.files):
            skills = HomeSkillFiles(self._home.profile(profile).skills)
            held = skills.locked() if name == "skills" else documents.opened(profile, name)
            await locks.enter_async_context(held)

    def _compared(self, incoming: Incoming) -> ImportedFiles:
        files = incoming.files
        check_places(files, files)
        added: list[tuple[str, str]] = []
        replaced: list[tuple[str, str]] = []
        unchanged: list[tuple[str, str]] = []
        for (profile, path), (_, aside) in files.items():
            root = self._home.profile(profile).root
            problem = obstacle(root, path)
            if problem:
                raise FailedPrecondition(f"{path} ({profile}) has no place: {problem}")
            if not os.path.lexists(root / path):
                added.append((profile, path))
            elif _is_same(aside, root / path):
                unchanged.append((profile, path))
            else:
                replaced.append((profile, path))
        return ImportedFiles(added, replaced, (), unchanged)

    def _place(self, incoming: Incoming, wanted: Sequence[tuple[str, str]]) -> None:
        touched: set[Path] = set()
        for profile, path in wanted:
            file, aside = incoming.files[profile, path]
            target = Path(os.path.realpath(self._home.profile(profile).root / path))
            try:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                aside.chmod(kept_mode(file))
                _move(aside, target)
            except OSError as error:
                why = f"{target} cannot be written: {error.strerror}"
                raise HomeError(f"{why}; put that right, and import the same again") from None
            touched.add(target.parent)
        for parent in touched:
            _sync(parent)


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HomeError(f"{path} cannot be read: {error.strerror}") from None


def _is_same(left: Path, right: Path) -> bool:
    try:
        with left.open("rb") as ours, right.open("rb") as theirs:
            if os.fstat(ours.fileno()).st_size != os.fstat(theirs.fileno()).st_size:
                return False
            pairs = iter(lambda: (ours.read(PIECE_BYTES), theirs.read(PIECE_BYTES)), (b"", b""))
            return all(one == other for one, other in pairs)
    except OSError as error:
        raise HomeError(f"{right} cannot be read: {error.strerror}") from None


def _move(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = target.with_name(f".{target.name}.{source.parent.name}")
        try:
            shutil.copy(source, beside)
            with beside.open("rb") as stream:
                os.fsync(stream.fileno())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        source.unlink()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
