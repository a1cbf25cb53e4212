"""The interface to all files of profiles, for moving them as a whole."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from services.errors import AlreadyExists, FailedPrecondition, InvalidArgument
from services.home.files import Contents, HomeFile, SkippedFile, check_path, is_secret
from services.home.paths import HomeError, HomePaths, private_folder

PIECE_BYTES = 256 * 1024
_INCOMING = "incoming-"
_FORGOTTEN_AFTER_S = 86_400.0
_MEMORIES = ("memories/MEMORY.md", "memories/USER.md")
_NAMED = 10


class Existing(StrEnum):
    """What to do with existing files whose content differs."""

    REFUSE = "refuse"
    KEEP = "keep"
    REPLACE = "replace"


class ImportedFiles(Struct, frozen=True):
    """The outcome of an import; each file by profile and path."""

    added: Sequence[tuple[str, str]] = ()
    replaced: Sequence[tuple[str, str]] = ()
    kept: Sequence[tuple[str, str]] = ()
    unchanged: Sequence[tuple[str, str]] = ()
    left_out: Sequence[SkippedFile] = ()

    @property
    def written(self) -> Sequence[tuple[str, str]]:
        """Return the files that now have the imported content."""
        return (*self.added, *self.replaced)


class Incoming:
    """Imported files, staged in a folder until all of them have arrived."""

    def __init__(self, home: HomePaths, folder: Path) -> None:
        self._home = home
        self._folder = folder
        self._files: dict[tuple[str, str], tuple[HomeFile, Path]] = {}
        self._data = bytearray()

    @property
    def files(self) -> Mapping[tuple[str, str], tuple[HomeFile, Path]]:
        """Return each file by profile and path, and where it is staged."""
        return self._files

    async def add(self, file: HomeFile) -> None:
        """Begin a file; InvalidArgument if the path is not allowed."""
        check_path(file.profile, file.path)
        key = (self._home.profile(file.profile).name, file.path)
        if key in self._files:
            raise InvalidArgument(f"{file.path} came twice", fields={"file.path": "each once"})
        await self.flush()
        self._files[key] = (file, self._folder / str(len(self._files)))

    async def write(self, data: bytes) -> None:
        if not self._files:
            raise InvalidArgument("data came before a file", fields={"data": "after a file"})
        self._data += data
        if len(self._data) >= PIECE_BYTES * 4:
            await self.flush()

    async def flush(self) -> None:
        if self._files:
            data, self._data = bytes(self._data), bytearray()
            _, path = next(reversed(self._files.values()))
            await asyncio.to_thread(_append, path, data)


@asynccontextmanager
async def incoming_to(home: HomePaths) -> AsyncGenerator[Incoming]:
    """Stage files; those that were not put in place are deleted when the context ends."""
    await asyncio.to_thread(private_folder, home.state)
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=_INCOMING, dir=home.state))
    try:
        yield Incoming(home, folder)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def forget_old(home: HomePaths) -> None:
    """Remove staged files of processes that died."""
    long_ago = time.time() - _FORGOTTEN_AFTER_S
    for folder in home.state.glob(f"{_INCOMING}*"):
        with suppress(FileNotFoundError):  # another process removes it
            if folder.stat().st_mtime < long_ago:
                shutil.rmtree(folder, ignore_errors=True)


def _append(path: Path, data: bytes) -> None:
    try:
        with path.open("ab") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise HomeError(f"{path.parent} cannot be written: {error.strerror}") from None


class HomeStore(Protocol):
    """Stores all files of profiles."""

    async def profiles(self) -> Sequence[str]:
        """Return the default profile and all profiles that have files."""
        ...

    async def contents(self, profile: str) -> Contents:
        """Return a profile's files that an export includes, by path."""
        ...

    def read(self, file: HomeFile) -> AsyncGenerator[bytes]:
        """Yield a file in pieces; nothing if it is gone."""
        ...

    def incoming(self) -> AbstractAsyncContextManager[Incoming]:
        """Stage files; those that were not put in place are deleted when the context ends."""
        ...

    async def put(self, incoming: Incoming, existing: Existing, *, dry_run: bool) -> ImportedFiles:
        """Put all files in place, or only report what that would do; repeating completes a
        broken-off put.

        If one file is in the way, none is put.
        """
        ...

    async def recover(self) -> None: ...


def changed_together(files: Collection[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield, by profile, the units that the agent itself changes: `skills` as one, and each memory.

    Lock several of them in this order.
    """
    for profile in sorted({profile for profile, _ in files}):
        if any(owner == profile and path.startswith("skills/") for owner, path in files):
            yield profile, "skills"
        yield from ((profile, name) for name in _MEMORIES if (profile, name) in files)


def decided(taken: ImportedFiles, existing: Existing) -> ImportedFiles:
    """Decide what happens to each file; AlreadyExists if some are in the way."""
    if existing is Existing.KEEP:
        return ImportedFiles(taken.added, (), taken.replaced, taken.unchanged, taken.left_out)
    if existing is Existing.REFUSE:
        _refuse(taken.replaced)
    return taken


def _refuse(conflicts: Sequence[tuple[str, str]]) -> None:
    if not conflicts:
        return
    named = ", ".join(f"{path} ({profile})" for profile, path in conflicts[:_NAMED])
    more = f" and {len(conflicts) - _NAMED} more" if len(conflicts) > _NAMED else ""
    count = "1 file is" if len(conflicts) == 1 else f"{len(conflicts)} files are"
    raise AlreadyExists(f"{count} there already with other content: {named}{more}")


def check_places(coming: Collection[tuple[str, str]], there: Collection[tuple[str, str]]) -> None:
    """Refuse a file whose path another file, by profile and path, needs as a folder."""
    folders = {(profile, folder) for profile, path in there for folder in _folders(path)}
    for profile, path in coming:
        problem = f"{path} is a folder" if (profile, path) in folders else ""
        for folder in _folders(path):
            if (profile, folder) in there:
                problem = f"{folder} is a file"
        if problem:
            raise FailedPrecondition(f"{path} ({profile}) has no place: {problem}")


def _folders(path: str) -> Sequence[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def kept_mode(file: HomeFile) -> int:
    """Return a file's permissions here: always the owner's, and for secrets no others."""
    if is_secret(file.path):
        return 0o600
    return (file.mode & 0o777) | 0o600
