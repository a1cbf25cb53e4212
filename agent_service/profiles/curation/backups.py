"""Backups of whole libraries: compressed files beside the skills, of which the latest are kept."""

import asyncio
import gzip
import io
import tarfile
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from agent_service.profiles.curation.changes import STAMP, free_stamp, stamp_order
from agent_service.profiles.skills.archives import packed
from agent_service.profiles.skills.files import FileRefused, SkillFiles
from services.errors import FailedPrecondition, NotFound
from services.validation import decode

FOLDER = ".curator_backups"
KEPT = 5
MAX_FILE_BYTES = 64 * 1024 * 1024
"""The limit for the compressed file and each file in it; homes in a database hold no larger ones.
"""
MAX_BYTES = 256 * 1024 * 1024
"""The limit for all files together, which are briefly in memory."""
PREFIX = ".curator_"
"""The prefix of the curator's own files, which are not backed up."""
_AFTER = ".curator_after.json"
_PASSING = (".usage.json.lock", ".hub_journal.json")
_SUFFIX = ".tar.gz"


class Backup(Struct, frozen=True):
    """The content of a library before a change, and what the change made of it."""

    library: Mapping[str, bytes]
    after: Mapping[str, str]
    """The digest of each changed path after the change; empty if it was removed."""


async def content(files: SkillFiles) -> Mapping[str, bytes]:
    """Return a library's files without the curator's; FailedPrecondition if they are too large."""
    found: dict[str, bytes] = {}
    left = MAX_BYTES
    for path in sorted(await files.tree()):
        if path.startswith(PREFIX) or path in _PASSING:
            continue
        try:
            data = await files.read(path, min(left, MAX_FILE_BYTES))
        except FileRefused as error:
            raise FailedPrecondition(f"the library cannot be backed up: {error}") from None
        if data is not None:
            found[path] = data
            left -= len(data)
    return found


async def make(files: SkillFiles, backup: Backup, now: datetime) -> str:
    """Store a backup, delete the oldest ones, and return the new backup's id."""
    there = await ids(files)
    backup_id = free_stamp(now, there)
    data = await asyncio.to_thread(_packed, backup)
    if len(data) > MAX_FILE_BYTES:
        raise FailedPrecondition(
            f"the library cannot be backed up: it has {len(data) >> 20} MiB when compressed, and "
            f"{MAX_FILE_BYTES >> 20} can be kept"
        )
    await files.write(_path(backup_id), data)
    for old in [backup_id, *there][KEPT:]:
        await files.remove(_path(old))
    return backup_id


async def ids(files: SkillFiles) -> Sequence[str]:
    """Return the backup ids, latest first."""
    names = [
        path.removeprefix(f"{FOLDER}/").removesuffix(_SUFFIX)
        for path in await files.tree()
        if path.startswith(f"{FOLDER}/") and path.endswith(_SUFFIX)
    ]
    return sorted((name for name in names if STAMP.fullmatch(name)), key=stamp_order, reverse=True)


async def since(files: SkillFiles, backup_id: str) -> AsyncIterator[Backup]:
    """Yield a backup and all later ones, latest first; NotFound if it is gone."""
    there = await ids(files)
    if backup_id not in there:
        raise NotFound(f"there is no backup {backup_id}")
    for each in there[: there.index(backup_id) + 1]:
        data = await files.read(_path(each), MAX_FILE_BYTES)
        yield await asyncio.to_thread(_unpacked, each, data or b"")


def _path(backup_id: str) -> str:
    return f"{FOLDER}/{backup_id}{_SUFFIX}"


def _packed(backup: Backup) -> bytes:
    library = {**backup.library, _AFTER: msgspec.json.encode(backup.after)}
    return gzip.compress(packed(library, lambda _: 0o600), 6)


def _unpacked(backup_id: str, data: bytes) -> Backup:
    """Read an archive in memory: nothing is unpacked to disk, so paths in it cannot do harm."""
    found: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for member in archive:
                left -= member.size
                stream = archive.extractfile(member) if member.isfile() else None
                if left < 0 or stream is None:
                    raise FailedPrecondition(f"the backup {backup_id} is damaged, or too large")
                found[member.name] = stream.read()
        return Backup(found, decode(found.pop(_AFTER, b""), dict[str, str]))
    except (tarfile.TarError, EOFError, OSError, msgspec.MsgspecError):
        raise FailedPrecondition(
            f"skills/{_path(backup_id)} is damaged, or a backup of another program, which tar "
            "unpacks"
        ) from None
