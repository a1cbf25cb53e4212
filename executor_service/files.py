"""Files of a sandbox, read and written by the supervisor inside its box."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec import Struct

from executor_service.errors import (
    BoxPoisoned,
    DigestMismatch,
    ExecutorError,
    FileRefused,
    LinkClosed,
    PathInvalid,
)
from executor_service.link import DirectoryEntry, Download, FileInfo, SupervisorLink
from executor_service.link import Upload as Target
from executor_service.pools.boxes import LiveBox
from services.errors import HermesError, LimitExceeded, NotFound, Unavailable

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Of an upload."""
MAX_ARCHIVE_BYTES = 1024 * 1024 * 1024
"""Of an archive."""
MAX_PAGE_ENTRIES = 1000

_LIMITS = frozenset({"NO_SPACE", "TOO_MANY", "TOO_DEEP", "TOO_LARGE"})
_T = TypeVar("_T")


class Upload(Struct, frozen=True):
    """What is announced of a file that is about to come."""

    path: str
    length_bytes: int
    sha256: bytes
    mode: int | None
    """Permission bits; None keeps those of the file that is replaced, else 0644."""


class Page(Struct, frozen=True):
    """Some entries of a folder, by name."""

    entries: list[DirectoryEntry]
    has_more: bool


async def stat(live: LiveBox, path: str) -> FileInfo:
    """What a path is, of a symbolic link itself."""
    return await _ask(live, lambda link: link.files.stat(path))


async def list_directory(live: LiveBox, path: str, after: str, limit: int) -> Page:
    """The entries whose names come after `after`, as many as there may be."""
    entries: list[DirectoryEntry] = []
    while True:
        page = await _list(live, path, after, limit - len(entries))
        entries += page.entries
        if not page.has_more or len(entries) >= limit or not page.entries:
            return Page(entries, page.has_more)
        after = entries[-1].name


@asynccontextmanager
async def download(
    live: LiveBox, path: str, offset: int, length: int | None
) -> AsyncGenerator[tuple[FileInfo, Download]]:
    """What a file is, and its bytes from an offset on."""
    async with _answering():
        link = await live.link()
        info = await link.files.stat(path, follow=True)
        async with link.files.download(path, offset, length) as running:
            yield info, running


async def upload(live: LiveBox, wanted: Upload, chunks: AsyncIterator[bytes]) -> FileInfo:
    """Writes a file: it appears whole when what came is what was announced, or not at all."""
    async with _answering():
        link = await live.link()
        async with link.files.upload(wanted.path, wanted.mode, parents=True) as target:
            return await _fill(target, wanted, chunks)


async def unpack(live: LiveBox, wanted: Upload, chunks: AsyncIterator[bytes]) -> FileInfo:
    """Makes a folder of an archive: all of it, or nothing."""
    async with _answering():
        link = await live.link()
        async with link.files.unpack(wanted.path, parents=True) as target:
            return await _fill(target, wanted, chunks)


async def move(live: LiveBox, source: str, target: str, overwrite: bool) -> None:
    """Renames a path within one file system."""
    async with _answering():
        await (await live.link()).files.move(source, target, overwrite)


async def remove(live: LiveBox, path: str, recursive: bool) -> None:
    """Removes a path; never what a link in it leads to."""
    async with _answering():
        await (await live.link()).files.remove(path, recursive)


async def _fill(target: Target, wanted: Upload, chunks: AsyncIterator[bytes]) -> FileInfo:
    received, digest = 0, hashlib.sha256()
    async for chunk in chunks:
        received += len(chunk)
        if received > wanted.length_bytes:
            break
        digest.update(chunk)
        await target.write(chunk)
    if received != wanted.length_bytes or digest.digest() != wanted.sha256:
        raise DigestMismatch("what came is not what was announced; nothing was written")
    return await target.commit(received, digest.hexdigest())


async def _list(live: LiveBox, path: str, after: str, limit: int) -> Page:
    page = await _ask(live, lambda link: link.files.list_directory(path, after, limit))
    return Page(list(page.entries), page.more)


async def _ask(live: LiveBox, question: Callable[[SupervisorLink], Awaitable[_T]]) -> _T:
    """Asks over whatever link there is: what only looks may be asked again over the next one."""
    async with _answering():
        link = await live.link()
        try:
            return await question(link)
        except LinkClosed:
            return await question(await live.link())


@asynccontextmanager
async def _answering() -> AsyncGenerator[None]:
    """Turns what the box says into answers for the caller."""
    try:
        yield
    except FileRefused as error:
        raise _answer(error) from error
    except (LinkClosed, BoxPoisoned) as error:
        raise _cut(error) from error


def _answer(error: FileRefused) -> HermesError:
    message = str(error)
    if error.code == "NOT_FOUND":
        # So that nobody takes a sandbox that is not known for a path that is not there.
        return NotFound(message, metadata={"missing": "path"})
    if error.code in _LIMITS:
        return LimitExceeded(message)
    if error.code == "DIGEST_MISMATCH":
        return DigestMismatch(message)
    return PathInvalid(message, fields={"path": message})


def _cut(error: ExecutorError) -> HermesError:
    return Unavailable(f"the channel to the sandbox was cut, look and try again: {error}")
