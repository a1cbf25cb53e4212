"""Changes a library for tools and its owner."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from agent_service.profiles.skills.changes import Change, Changes, SkillChangeRequest, Use
from agent_service.profiles.skills.document import BadSkill, is_category, is_name, own_name
from agent_service.profiles.skills.files import FileRefused
from agent_service.profiles.skills.journal import digest
from agent_service.profiles.skills.library import Library, Skill, change_usage
from agent_service.profiles.skills.names import (
    ARCHIVE,
    DOCUMENT,
    MAX_SUPPORT_BYTES,
    archive_folders,
    archive_place,
    is_inside,
    skill_folders,
)
from agent_service.profiles.skills.usage import Usage, timestamp
from services.clock import Clock
from services.errors import AlreadyExists, NotFound
from services.validation import convert

NOTES = "skill_changes"
NOTES_KEPT = 64

_UNSURE = (
    "This change was begun and the file has been changed by somebody else since, so that it is not "
    "known whether it was made. Look at it with skill_view."
)


class Notes(Protocol):
    """Values that are stored with the session."""

    async def get(self, name: str) -> Any: ...

    async def put(self, name: str, value: Any) -> None:
        """Store a value under the running turn's fence."""
        ...


class SkillManager:
    """Changes one library for tools and its owner."""

    def __init__(self, library: Library, clock: Clock) -> None:
        self._library = library
        self._files = library.files
        self._changes = Changes(library)
        self._clock = clock

    async def manage(self, key: str, wanted: SkillChangeRequest, notes: Notes) -> str:
        """Make or complete a change; BadSkill or FileRefused says why not."""
        async with self._files.locked():
            kept: dict[str, Any] = dict(await notes.get(NOTES) or {})
            known = convert(kept[key], Change) if key in kept else None
            if known is None or await self._stands(known, known.before, known.path):
                now = self._clock.now()
                change = await self._changes.plan(wanted, now)
                if known is None:
                    known = replace(change, at=timestamp(now), data=None)
                    newest = list({**kept, key: msgspec.to_builtins(known)}.items())[-NOTES_KEPT:]
                    await notes.put(NOTES, dict(newest))
                await self._apply(replace(known, data=change.data))
            elif not await self._stands(known, known.after, known.target):
                raise BadSkill(_UNSURE)
            await change_usage(self._files, known.name, lambda usage: _used(usage, known))
            return known.told

    async def viewed(self, name: str) -> None:
        await self._count(name, Usage.viewed)

    async def used(self, name: str) -> None:
        await self._count(name, Usage.used)

    async def _count(self, name: str, counted: Callable[[Usage, str], Usage]) -> None:
        async with self._files.locked():
            at = timestamp(self._clock.now())
            await change_usage(self._files, name, lambda usage: counted(usage, at))

    async def _apply(self, change: Change) -> None:
        if change.target:
            await self._files.move(change.path, change.target)
        elif change.data is None:
            await self._files.remove(change.path)
        else:
            await self._files.write(change.path, change.data)

    async def _stands(self, change: Change, expected: str, place: str) -> bool:
        """Return whether the file has the expected digest, or the moved folder is at `place`."""
        if change.target:
            return await self._files.read(f"{place}/{DOCUMENT}", MAX_SUPPORT_BYTES * 64) is not None
        return digest(await self._files.read(change.path, MAX_SUPPORT_BYTES * 64)) == expected

    async def pin(self, skill: Skill, *, is_pinned: bool) -> None:
        async with self._files.locked():
            await change_usage(
                self._files, skill.name, lambda usage: usage.with_pin(is_pinned=is_pinned)
            )

    async def archive(self, skill: Skill) -> str:
        """Archive a skill; return its new folder."""
        async with self._files.locked():
            now = self._clock.now()
            there = archive_folders(await self._files.tree())
            target = archive_place(there, skill.name, now)
            await self._files.move(skill.folder, target)
            await change_usage(
                self._files, skill.name, lambda usage: usage.archived(timestamp(now), skill.folder)
            )
        return target

    async def restore(self, folder: str) -> str:
        """Restore a skill into its category; return its name, which is that of its folder."""
        async with self._files.locked():
            there = await self.archived()
            if folder not in there:
                known = ", ".join(there) or "nothing"
                raise NotFound(f"the archive has no skill {folder!r}; it has {known}")
            name = await self._name(folder)
            if (await self._library.catalogue()).find(name):
                raise AlreadyExists(f"there is a skill {name} already; put that one away first")
            before = (await self._library.provenance()).usage.get(name)
            category = await self._category(before.archived_from)
            await self._files.move(f"{ARCHIVE}/{folder}", f"{category}/{name}".lstrip("/"))
            at = timestamp(self._clock.now())
            await change_usage(self._files, name, lambda usage: usage.restored(at))
        return name

    async def _category(self, noted: str) -> str:
        """Return the recorded category; empty if it is invalid or the name of a skill by now."""
        if not is_category(noted):
            return ""
        skills = skill_folders(await self._files.tree())
        return "" if any(is_inside(noted, skill) for skill in skills) else noted

    async def archived(self) -> Sequence[str]:
        tree = await self._files.tree()
        parts = (path.split("/") for path in tree if path.startswith(f"{ARCHIVE}/"))
        return sorted({each[1] for each in parts if len(each) == 3 and each[2] == DOCUMENT})

    async def _name(self, folder: str) -> str:
        try:
            text = await self._library.text(f"{ARCHIVE}/{folder}/{DOCUMENT}")
        except FileRefused as error:
            raise BadSkill(f"{folder} cannot be brought back: {error}") from None
        named = await asyncio.to_thread(own_name, text)
        return named if is_name(named) and folder.startswith(named) else folder


def _used(usage: Usage, change: Change) -> Usage:
    at = change.at
    match change.use:
        case Use.CREATED:
            return usage if usage.created_at == at else usage.created(at)
        case Use.PATCHED:
            return usage.patched(at)
        case Use.ARCHIVED:
            return usage.archived(at, change.path)
