"""A hub's changes of a library, each atomic, and the lock file."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from agent_service.profiles.skills import journal
from agent_service.profiles.skills.files import SkillFiles
from agent_service.profiles.skills.journal import Change, Move, Remove, Write, digest
from agent_service.profiles.skills.library import (
    HUB,
    MAX_LIST_BYTES,
    Catalogue,
    Installed,
    Library,
    LockFile,
    Provenance,
    change_usage,
)
from agent_service.profiles.skills.names import (
    DOCUMENT,
    MAX_SUPPORT_BYTES,
    archive_folders,
    archive_place,
)
from agent_service.profiles.skills.usage import SkillState, Usage
from services.validation import convert

JOURNAL = ".hub_journal.json"


class Shelf(Struct, frozen=True):
    """The current state of a library."""

    catalogue: Catalogue
    provenance: Provenance
    paths: Sequence[str]

    @property
    def lock(self) -> LockFile:
        return self.provenance.hub

    def folder(self, name: str) -> str:
        """Return the folder of a hub skill; empty if it is not in the library."""
        entry = self.lock.get(name)
        places = (entry.install_path if entry else "", name, *self._places(name))
        return next((each for each in places if f"{each}/{DOCUMENT}" in self.paths), "")

    def inside(self, folder: str) -> Sequence[str]:
        below = f"{folder}/"
        return [
            path
            for path in self.paths
            if path.startswith(below) and not path.rpartition("/")[2].startswith(".")
        ]

    def archive_for(self, name: str, now: datetime) -> str:
        return archive_place(archive_folders(self.paths), name, now)

    def _places(self, name: str) -> Sequence[str]:
        return [each.folder for each in self.catalogue.find(name)]


class HubShelf:
    """Reads and changes a library; lock its files for changes."""

    def __init__(self, files: SkillFiles) -> None:
        self.files = files
        self._library = Library(files)

    async def read(self) -> Shelf:
        catalogue, provenance = await self._library.catalogue(), await self._library.provenance()
        return Shelf(catalogue, provenance, sorted(await self.files.tree()))

    async def content(self, shelf: Shelf, folder: str) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for path in shelf.inside(folder) if folder else ():
            data = await self.files.read(path, MAX_SUPPORT_BYTES * 64)
            if data is not None:
                found[path.removeprefix(f"{folder}/")] = data
        return found

    async def put(
        self,
        folder: str,
        there: Mapping[str, bytes],
        files: Mapping[str, bytes],
        kept_at: str,
        noted: "Noted",
    ) -> None:
        changes: list[Change] = []
        if kept_at:
            changes += [Write(f"{kept_at}/{path}", "", data) for path, data in there.items()]
        gone = sorted(set(there).difference(files))
        # SKILL.md last: only with it does the skill exist.
        for path in sorted(files, key=lambda path: (path == DOCUMENT, path)):
            before = there.get(path)
            if before != files[path]:
                changes.append(Write(f"{folder}/{path}", digest(before), files[path]))
        changes += [Remove(f"{folder}/{path}", digest(there[path])) for path in gone]
        await self._commit(changes, noted)

    async def move(self, folder: str, target: str, noted: "Noted") -> None:
        await self._commit([Move(folder, target)] if folder else [], noted)

    async def is_whole(self) -> bool:
        return await self.files.read(JOURNAL, journal.MAX_BYTES) is None

    async def recover(self) -> None:
        """Complete changes that were committed when a process died; the library must be locked."""
        await journal.recover(self.files, self._finish, JOURNAL)

    async def _commit(self, changes: Sequence[Change], noted: "Noted") -> None:
        entry = journal.Entry(tuple(changes), msgspec.to_builtins(noted))
        await journal.commit(self.files, entry, self._finish, JOURNAL)

    async def _finish(self, stored: Mapping[str, Any]) -> None:
        noted = convert(stored, Noted)
        lock = LockFile.parse(await self.files.read(HUB, MAX_LIST_BYTES))
        before = lock.encoded()
        lock.put(noted.name, noted.entry)
        if lock.encoded() != before:
            await self.files.write(HUB, lock.encoded())
        await change_usage(self.files, noted.name, lambda usage: _used(usage, noted))


class Noted(Struct, frozen=True):
    """What is recorded after a change."""

    name: str
    entry: Installed | None
    """None removes the entry."""
    at: str
    is_new: bool = False
    folder: str = ""
    """The former folder of a removed skill."""


def _used(usage: Usage, noted: Noted) -> Usage:
    if noted.entry is None:
        is_away = usage.state is SkillState.ARCHIVED
        return usage if is_away else usage.archived(noted.at, noted.folder)
    return usage.anew(noted.at) if noted.is_new else usage
