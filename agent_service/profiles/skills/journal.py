"""Makes many changes of a library as one: they are written to a journal first, then made.

Writing the journal is the commit. A process that finds a journal, also after a crash, makes the
remaining changes and deletes it.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from agent_service.profiles.skills.files import FileRefused, SkillFiles
from services.errors import FailedPrecondition, ServiceUnavailable
from services.validation import decode

MAX_BYTES = 256 * 1024 * 1024

_log = logging.getLogger(__name__)


class Write(Struct, frozen=True, tag="write"):
    """A file to write if it still has the expected content."""

    path: str
    before: str
    """The digest of its content; empty if there is none."""
    data: bytes


class Remove(Struct, frozen=True, tag="remove"):
    """A file to remove if it still has the expected content; a backup has a copy."""

    path: str
    before: str


class Move(Struct, frozen=True, tag="move"):
    """A folder to move."""

    source: str
    target: str


Change = Write | Move | Remove


class Entry(Struct, frozen=True):
    """A committed list of changes."""

    changes: tuple[Change, ...]
    report: Mapping[str, Any]


Finish = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Reports what was done; must be idempotent."""


def applied(library: Mapping[str, bytes], changes: Iterable[Change]) -> Mapping[str, bytes]:
    """Return a library's content after changes."""
    there = dict(library)
    for change in changes:
        match change:
            case Write(path, _, data):
                there[path] = data
            case Remove(path, _):
                there.pop(path, None)
            case Move(source, target):
                for path in [path for path in there if path.startswith(f"{source}/")]:
                    there[target + path.removeprefix(source)] = there.pop(path)
    return there


def digest(data: bytes | None) -> str:
    """Return the digest of a file's content; empty if there is none."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def content_digest(files: Mapping[str, bytes]) -> str:
    """Return the digest of a folder: of its paths and their content."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{digest(files[path])}  {path}\n".encode())
    return f"sha256:{whole.hexdigest()}"


async def commit(files: SkillFiles, entry: Entry, finish: Finish, path: str) -> None:
    """Make all changes; the library must be locked. `path` is the journal's."""
    data = msgspec.json.encode(entry)
    if len(data) > MAX_BYTES:
        raise FailedPrecondition("the changes are more than can be made at once")
    try:
        await files.write(path, data)
    except FileRefused:
        # The write may have succeeded despite the error; then it is committed.
        if await files.read(path, MAX_BYTES) != data:
            raise
    await recover(files, finish, path)


async def recover(files: SkillFiles, finish: Finish, path: str) -> bool:
    """Complete committed changes; return whether there were any. The library must be locked.

    Raises ServiceUnavailable if they cannot be made, never a refusal: a later call completes them.
    """
    data = await _written(files, path)
    if data is None:
        return False
    try:
        entry = decode(data, Entry)
    except msgspec.MsgspecError:
        # Journals are written atomically, so another program wrote this.
        raise FailedPrecondition(f"{path} of the skills is no journal; move it away") from None
    try:
        for change in entry.changes:
            await _make(files, change)
        await finish(entry.report)
        await files.remove(path)
    except (FileRefused, FailedPrecondition) as error:
        raise _half_made(error) from None
    return True


async def _written(files: SkillFiles, path: str) -> bytes | None:
    try:
        return await files.read(path, MAX_BYTES)
    except FileRefused as error:
        raise _half_made(error) from None


def _half_made(error: Exception) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"changes of the skills are half made: {error}; put that right, and they go on from there"
    )


async def _make(files: SkillFiles, change: Change) -> None:
    match change:
        case Write(path, before, content):
            found = await files.read(path, MAX_BYTES)
            if _is_unchanged(path, found, before, digest(content)):
                await files.write(path, content)
        case Remove(path, before):
            found = await files.read(path, MAX_BYTES)
            if _is_unchanged(path, found, before, ""):
                await files.remove(path)
        case Move(source, target):
            tree = await files.tree()
            if any(path.startswith(f"{source}/") for path in tree):
                await files.move(source, target)


def _is_unchanged(path: str, found: bytes | None, before: str, after: str) -> bool:
    now = digest(found)
    if now not in (before, after):
        _log.warning("%s was changed before its change was made, and stays", path)
    return now == before and now != after
