"""Documents of profiles, such as SOUL.md and memories: the store interface, and files."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from services.errors import FailedPrecondition, Unavailable
from services.home.file_lock import locked_by
from services.home.paths import HomePaths, replace_file
from services.lifecycle import unbroken

MAX_DOCUMENT_BYTES = 1024 * 1024
LOCK_WAIT_S = 10.0
"""How long another program that uses the home may hold a document."""
_PRIVATE = 0o600


class Document:
    """A document that is locked for a change."""

    def __init__(
        self, name: str, data: bytes, write: Callable[[str, bytes], Awaitable[None]]
    ) -> None:
        self.data = data
        """The content; empty if there is none."""
        self._name = name
        self._write = write

    async def replace(self, data: bytes) -> None:
        """Write the document atomically and durably, or fail and leave it as it was."""
        await self._write(self._name, data)
        self.data = data

    async def keep_copy(self, ending: str) -> None:
        """Write a copy beside the document, with this ending of its name."""
        await self._write(f"{self._name}{ending}", self.data)


class ProfileStore(Protocol):
    """Stores the documents of profiles by name, such as `memories/MEMORY.md`."""

    async def read(self, profile: str, *names: str) -> list[bytes]: ...

    def opened(self, profile: str, name: str) -> AbstractAsyncContextManager[Document]:
        """Open a document for a change, and lock it against other writers."""
        ...


class FileProfiles:
    """Documents as files of the home, which other programs may also read and change."""

    def __init__(self, home: HomePaths, *, lock_wait_s: float = LOCK_WAIT_S) -> None:
        self._home = home
        self._lock_wait_s = lock_wait_s
        self._lines: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        """One queue for each file: with many pollers, some would never get the lock."""

    async def read(self, profile: str, *names: str) -> list[bytes]:
        return await asyncio.to_thread(self._read, profile, names)

    @asynccontextmanager
    async def opened(self, profile: str, name: str) -> AsyncGenerator[Document]:
        path = self._path(profile, name)
        what, lock = f"{path.name} of this home", path.with_name(f"{path.name}.lock")

        async def write(name: str, data: bytes) -> None:
            # Complete it even if cancelled: the lock must not be released before.
            await unbroken(asyncio.to_thread(_replace, self._path(profile, name), data))

        line = self._lines.setdefault(path, asyncio.Lock())
        try:
            async with asyncio.timeout(self._lock_wait_s):
                await line.acquire()
        except TimeoutError:
            raise Unavailable(f"another program holds {what}; try again") from None
        try:
            async with locked_by(lock, what, self._lock_wait_s):
                yield Document(name, await asyncio.to_thread(_read, path), write)
        finally:
            line.release()

    def _read(self, profile: str, names: tuple[str, ...]) -> list[bytes]:
        return [_read(self._path(profile, name)) for name in names]

    def _path(self, profile: str, name: str) -> Path:
        return self._home.profile(profile).root / name


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_DOCUMENT_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise FailedPrecondition(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_DOCUMENT_BYTES:
        raise FailedPrecondition(f"{path} is larger than {MAX_DOCUMENT_BYTES} bytes")
    return data


def _replace(path: Path, data: bytes) -> None:
    mode = _PRIVATE
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode & 0o777
    replace_file(path, data, mode)
