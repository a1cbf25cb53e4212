"""Works out a change of the library, or why it is refused; writes nothing."""

import asyncio
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from agent_service.profiles.skills.document import (
    MAX_NAME_CHARS,
    BadSkill,
    checked,
    is_category,
    to_markdown,
)
from agent_service.profiles.skills.files import FileRefused
from agent_service.profiles.skills.journal import digest
from agent_service.profiles.skills.library import Catalogue, Library, Protection, Skill, protection
from agent_service.profiles.skills.names import (
    DOCUMENT,
    MAX_SUPPORT_BYTES,
    SUPPORT_FOLDERS,
    archive_folders,
    archive_place,
    is_inside,
    is_one_off,
    support_file,
)


class Action(StrEnum):
    """Kind of change to a skill."""

    CREATE = "create"
    PATCH = "patch"
    EDIT = "edit"
    WRITE_FILE = "write_file"
    REMOVE_FILE = "remove_file"
    ARCHIVE = "archive"


class Use(StrEnum):
    """How a change affects the skill's usage record."""

    CREATED = "created"
    PATCHED = "patched"
    ARCHIVED = "archived"


class SkillChangeRequest(Struct, frozen=True):
    """A requested change."""

    action: Action
    name: str
    content: str = ""
    old_string: str = ""
    new_string: str = ""
    replace_all: bool = False
    category: str = ""
    file_path: str = ""
    file_content: str | None = None
    absorbed_into: str = ""


class Change(Struct, frozen=True):
    """One file to write or remove, or one folder to move: a single step, so that it is atomic."""

    name: str
    path: str
    told: str
    use: Use
    at: str = ""
    before: str = ""
    """The digest of the current file; empty if there is none."""
    after: str = ""
    """The digest of the new content; empty removes the file."""
    data: bytes | None = None
    """The new content; not stored."""
    target: str = ""


class Changes:
    """Works out changes against the current library."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def plan(self, wanted: SkillChangeRequest, now: datetime) -> Change:
        catalogue = await self._library.catalogue()
        if wanted.action is Action.CREATE:
            return await asyncio.to_thread(_created, wanted, catalogue)
        skill = catalogue.only(wanted.name)
        await self._check_unprotected(skill)
        match wanted.action:
            case Action.EDIT:
                return await self._edited(skill, wanted)
            case Action.PATCH:
                return await self._patched(skill, wanted)
            case Action.WRITE_FILE:
                return await self._file_written(skill, wanted)
            case Action.REMOVE_FILE:
                return await self._file_removed(skill, wanted)
            case Action.ARCHIVE:
                return await self._archived(skill, wanted, catalogue, now)

    async def _check_unprotected(self, skill: Skill) -> None:
        provenance = await self._library.provenance()
        why = protection(provenance.origin(skill.name), provenance.usage.get(skill.name))
        if why is Protection.PINNED:
            raise BadSkill(f"The user has pinned {skill.name}, so that it stays as it is.")
        if why:
            raise BadSkill(
                f"{skill.name} is not changed here: {why}. Put what you have learned into a skill "
                "of your own."
            )

    async def _edited(self, skill: Skill, wanted: SkillChangeRequest) -> Change:
        if not wanted.content:
            raise BadSkill("edit needs content: the whole new SKILL.md.")
        before = await self._library.exact(f"{skill.folder}/{DOCUMENT}")
        return await asyncio.to_thread(_document, skill, before, wanted.content)

    async def _patched(self, skill: Skill, wanted: SkillChangeRequest) -> Change:
        if not wanted.old_string:
            raise BadSkill("patch needs old_string, the text to replace, and new_string.")
        path = _support_path(wanted.file_path) if wanted.file_path else ""
        before = await self._library.exact(f"{skill.folder}/{path or DOCUMENT}")
        count = before.count(wanted.old_string)
        where = path or DOCUMENT
        if count == 0:
            raise BadSkill(
                f"old_string does not stand in {where} of {skill.name}; look at it with skill_view "
                "and copy it exactly, white space included."
            )
        if count > 1 and not wanted.replace_all:
            raise BadSkill(
                f"old_string stands in {where} {count} times; take more of the lines around it, "
                "or set replace_all."
            )
        after = before.replace(wanted.old_string, wanted.new_string)
        if path:
            return _support(skill, path, before, after)
        return await asyncio.to_thread(_document, skill, before, after)

    async def _file_written(self, skill: Skill, wanted: SkillChangeRequest) -> Change:
        if wanted.file_content is None:
            raise BadSkill("write_file needs file_path and file_content.")
        path = _support_path(wanted.file_path)
        is_new = path not in skill.files
        before = None if is_new else await self._library.exact(f"{skill.folder}/{path}")
        return _support(skill, path, before, wanted.file_content)

    async def _file_removed(self, skill: Skill, wanted: SkillChangeRequest) -> Change:
        path = _support_path(wanted.file_path)
        if path not in skill.files:
            raise BadSkill(f"{skill.name} has no {path}; it has {_listed(skill.files)}.")
        place = f"{skill.folder}/{path}"
        before = await self._library.files.read(place, MAX_SUPPORT_BYTES * 64)
        told = f"Removed {path} of {skill.name}."
        return Change(skill.name, place, told, Use.PATCHED, before=digest(before))

    async def _archived(
        self, skill: Skill, wanted: SkillChangeRequest, catalogue: Catalogue, now: datetime
    ) -> Change:
        told = f"Archived {skill.name}. It is kept, and a person can bring it back."
        if wanted.absorbed_into:
            heir = catalogue.only(wanted.absorbed_into)
            if heir == skill:
                raise BadSkill("A skill cannot be absorbed into itself.")
            told = f"Archived {skill.name}, which is now part of {heir.name}; it is kept."
        there = archive_folders(await self._library.files.tree())
        target = archive_place(there, skill.name, now)
        return Change(skill.name, skill.folder, told, Use.ARCHIVED, target=target)


def _created(wanted: SkillChangeRequest, catalogue: Catalogue) -> Change:
    name, category = wanted.name, wanted.category
    if not wanted.content:
        raise BadSkill("create needs content: a whole SKILL.md with its frontmatter.")
    if category and not is_category(category):
        raise BadSkill(
            f"{category!r} is no name of a category: 1 to {MAX_NAME_CHARS} characters of a-z and "
            "0-9, and single hyphens between them."
        )
    if is_one_off(name):
        raise BadSkill(
            f"{name!r} names one occasion. Name the kind of work that it helps with, or put what "
            "you have learned into a skill that there is."
        )
    document = checked(wanted.content, name)
    folder = f"{category}/{name}" if category else name
    taken = {each.folder for each in (*catalogue.find(name), *catalogue.find(category))}
    taken |= {name for skill in catalogue.skills if is_inside(skill.category, name)}
    taken |= {each.folder for each in catalogue.skills if is_inside(folder, each.folder)}
    taken |= {folder for skill in catalogue.skills if is_inside(skill.folder, folder)}
    if taken:
        raise BadSkill(
            f"There is {_listed(sorted(taken))} already; patch or edit it, or choose another name."
        )
    told = f"Created the skill {name}. It is listed from the next conversation on."
    data = to_markdown(document).encode()
    return Change(name, f"{folder}/{DOCUMENT}", told, Use.CREATED, after=digest(data), data=data)


def _document(skill: Skill, before: str, after: str) -> Change:
    text = to_markdown(checked(after, skill.name))
    return _changed(skill, DOCUMENT, before, text)


def _support(skill: Skill, path: str, before: str | None, after: str) -> Change:
    size = len(after.encode())
    if size > MAX_SUPPORT_BYTES:
        raise BadSkill(f"A file of a skill has 1 MiB at most; this one has {size:,} bytes.")
    if "\0" in after:
        raise BadSkill(f"{path} would be no text: it has a NUL character.")
    return _changed(skill, path, before, after)


def _changed(skill: Skill, path: str, before: str | None, after: str) -> Change:
    if before == after:
        raise BadSkill(f"That changes nothing in {path} of {skill.name}.")
    done = "Wrote" if before is None else "Changed"
    told = f"{done} {path} of {skill.name}; it has {len(after.encode()):,} bytes now."
    return Change(
        name=skill.name,
        path=f"{skill.folder}/{path}",
        told=told,
        use=Use.PATCHED,
        before="" if before is None else digest(before.encode()),
        after=digest(after.encode()),
        data=after.encode(),
    )


def _support_path(path: str) -> str:
    found = support_file(path)
    if found is None:
        raise FileRefused(
            f"{path!r} is no file of a skill: these are directly in {_listed(SUPPORT_FOLDERS)}, "
            "such as references/api.md"
        )
    return found


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names) or "none"
