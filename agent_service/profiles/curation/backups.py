"""Copies of whole libraries, each a compressed file beside the skills; the latest are kept."""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from agent_service.profiles.curation.changes import STAMP, free_stamp, stamp_order
from agent_service.profiles.skills.files import FileRefused, SkillFiles
from services.errors import FailedPrecondition, NotFound
from services.validation import decode

FOLDER = ".curator_backups"
KEPT = 5
MAX_FILE_BYTES = 64 * 1024 * 1024
"""Of the compressed file, and of each in it; a home in a database holds no larger ones."""
MAX_BYTES = 256 * 1024 * 1024
"""Of all files together, which are in memory for a moment."""
PREFIX = ".curator_"
"""What begins the names of files that are the curator's own, and in no backup."""
_AFTER = ".curator_after.json"
_PASSING = (".usage.json.lock", ".hub_journal.json")
_SUFFIX = ".tar.gz"


class Backup(Struct, frozen=True):
    """What a library held before a change, and what the change made of it."""

    library: Mapping[str, bytes]
    after: Mapping[str, str]
    """By what was changed, the digest of what it became; empty where it is gone."""


async def content(files: SkillFiles) -> Mapping[str, bytes]:
    """Every file of a library but the curator's own; FailedPrecondition where that is too much."""
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
    """Keep a copy of what a library holds, and return its id; the oldest ones go."""
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
    """The backups that there are, the latest first."""
    names = [
        path.removeprefix(f"{FOLDER}/").removesuffix(_SUFFIX)
        for path in await files.tree()
        if path.startswith(f"{FOLDER}/") and path.endswith(_SUFFIX)
    ]
    return sorted((name for name in names if STAMP.fullmatch(name)), key=stamp_order, reverse=True)


async def since(files: SkillFiles, backup_id: str) -> AsyncIterator[Backup]:
    """A backup and those that were made after it, the latest first; NotFound where it is gone."""
    there = await ids(files)
    if backup_id not in there:
        raise NotFound(f"there is no backup {backup_id}")
    for each in there[: there.index(backup_id) + 1]:
        data = await files.read(_path(each), MAX_FILE_BYTES)
        yield await asyncio.to_thread(_unpacked, each, data or b"")


def _path(backup_id: str) -> str:
    return f"{FOLDER}/{backup_id}{_SUFFIX}"


def _packed(backup: Backup) -> bytes:
    packed = io.BytesIO()
    library = {**backup.library, _AFTER: msgspec.json.encode(backup.after)}
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as archive:
        for path, data in library.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o600
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def _unpacked(backup_id: str, data: bytes) -> Backup:
    """What is in it; it is never unpacked onto a disk, so that no path in it leads anywhere."""
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
    except (tarfile.TarError, EOFError, OSError):
        raise FailedPrecondition(f"the backup {backup_id} is damaged") from None
    try:
        after = decode(found.pop(_AFTER, b""), dict[str, str])
    except msgspec.MsgspecError:
        raise FailedPrecondition(
            f"the backup {backup_id} does not say what was changed after it, so that this cannot "
            f"be undone; what it holds is in skills/{_path(backup_id)}, to be unpacked with tar"
        ) from None
    return Backup(found, after)
