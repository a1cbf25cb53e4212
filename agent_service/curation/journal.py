"""Makes the changes of a run as one: written down first, and from then on it only goes forward.

The list of changes, written whole, is the decision. Until it stands the library is as it was; who
finds it, also after a crash, makes the rest of the changes and takes it away.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from agent_service.curation.changes import Change, Move, Remove, Write, digest
from agent_service.skills.files import FileRefused, SkillFiles
from services.errors import FailedPrecondition

PATH = ".curator_journal.json"
MAX_BYTES = 256 * 1024 * 1024

_log = logging.getLogger(__name__)


class Entry(Struct, frozen=True):
    """A decision."""

    changes: tuple[Change, ...]
    report: Mapping[str, Any]
    """What is told of it, once it is done."""


Finish = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Tells what was done; the second time changes nothing."""


async def commit(files: SkillFiles, entry: Entry, finish: Finish, path: str = PATH) -> None:
    """Make all changes; the library has to be held. `path` is whose journal it is."""
    data = msgspec.json.encode(entry)
    if len(data) > MAX_BYTES:
        raise FailedPrecondition("the changes are more than can be made at once")
    await files.write(path, data)
    await recover(files, finish, path)


async def recover(files: SkillFiles, finish: Finish, path: str = PATH) -> bool:
    """Make the rest of the changes that were decided; whether there were any. It has to be held."""
    data = await files.read(path, MAX_BYTES)
    if data is None:
        return False
    try:
        entry = msgspec.json.decode(data, type=Entry)
    except msgspec.MsgspecError:
        # It is written whole, so that somebody else wrote this one.
        raise FailedPrecondition(f"{path} of the skills is no journal; move it away") from None
    try:
        for change in entry.changes:
            await _make(files, change)
    except FileRefused as error:
        raise FailedPrecondition(
            f"changes of the skills are half made: {error}; put that right, and they go on from "
            "there"
        ) from None
    await finish(entry.report)
    await files.remove(path)
    return True


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
    """Whether a file still is as it was when its change was decided, and not yet as it is to be."""
    now = digest(found)
    if now not in (before, after):
        _log.warning("%s was changed before its change was made, and stays", path)
    return now == before and now != after
