"""Reads a profile's library: its skills, their text, and their origin."""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from agent_service.profiles.skills.document import BadSkill, Conditions, SkillDocument, read
from agent_service.profiles.skills.files import FileFact, FileRefused, SkillFiles
from agent_service.profiles.skills.names import (
    DESCRIPTION,
    DOCUMENT,
    MAX_SUPPORT_BYTES,
    SUPPORT_FOLDERS,
    skill_folders,
)
from agent_service.profiles.skills.usage import Usage, UsageFile
from services.home.texts import decode_text
from services.validation import json_object, lenient, object_of

_log = logging.getLogger(__name__)

USAGE = ".usage.json"
BUNDLED = ".bundled_manifest"
HUB = ".hub/lock.json"
MAX_DOCUMENT_BYTES = 1024 * 1024
MAX_LIST_BYTES = 4 * 1024 * 1024


class Origin(StrEnum):
    """Where a skill comes from."""

    BUNDLED = "bundled"
    HUB = "hub"
    AGENT = "agent"
    USER = "user"


class Skill(Struct, frozen=True):
    """A skill without its text."""

    name: str
    category: str
    """The folders above its own, such as `mlops/training`; empty if it has none."""
    description: str
    conditions: Conditions
    tags: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def folder(self) -> str:
        return f"{self.category}/{self.name}" if self.category else self.name


class Catalogue(Struct, frozen=True):
    """The skills of a library by category and name."""

    skills: tuple[Skill, ...] = ()
    categories: Mapping[str, str] | None = None
    blocked: Mapping[str, str] = field(default_factory=dict[str, str])
    """What was removed from descriptions before models see them, by folder of skill or category."""

    def find(self, name: str) -> tuple[Skill, ...]:
        """Return the skills of that name, or the one at `category/name`."""
        return tuple(skill for skill in self.skills if name in (skill.name, skill.folder))

    def only(self, name: str) -> Skill:
        """Return the skill of that name or `category/name`; BadSkill unless exactly one matches."""
        found = self.find(name)
        if len(found) == 1:
            return found[0]
        if not found:
            raise BadSkill(f"There is no skill {name!r}; skills_list shows those that there are.")
        places = ", ".join(skill.folder for skill in found)
        raise BadSkill(f"There are several skills {name!r}: {places}. Say which.")

    def about(self, category: str) -> str:
        return (self.categories or {}).get(category, "")


class Installed(Struct, frozen=True):
    """A hub skill's entry; times are ISO 8601 in UTC."""

    source: str = ""
    """The source as text; entries of other programs may hold anything."""
    identifier: str = ""
    trust_level: str = ""
    scan_verdict: str = ""
    content_hash: str = ""
    install_path: str = ""
    files: Sequence[str] = ()
    version: str = ""
    commit: str = ""
    """Its commit; empty if the source has none."""
    accepted: Sequence[str] = ()
    installed_at: str = ""
    updated_at: str = ""


class LockFile:
    """The lock file with its unknown fields."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self._kept = {"version": 1, **kept}
        self._installed: dict[str, Any] = dict(object_of(kept.get("installed")))

    @classmethod
    def parse(cls, data: bytes | None) -> "LockFile":
        """Parse the file; BadSkill if it is invalid, because hub skills could not be told from
        others."""
        loaded = json_object(data or b"{}")
        if loaded is None:
            raise BadSkill(
                f"{HUB} of the skills is no JSON object, so that skills of a hub cannot be told "
                "from others; move it away, or mend it."
            )
        return cls(loaded)

    @property
    def names(self) -> Sequence[str]:
        return sorted(name for name, value in self._installed.items() if isinstance(value, dict))

    def get(self, name: str) -> Installed | None:
        found = self._installed.get(name)
        return lenient(cast("object", found), Installed) if isinstance(found, dict) else None

    def put(self, name: str, entry: Installed | None) -> None:
        """Set a skill's entry, keeping its unknown fields; None removes it."""
        before = self._installed.pop(name, None)
        if entry is not None:
            self._installed[name] = {**object_of(before), **msgspec.to_builtins(entry)}

    def encoded(self) -> bytes:
        whole = {**self._kept, "installed": self._installed}
        return (json.dumps(whole, indent=2, ensure_ascii=False) + "\n").encode()


class Provenance(Struct, frozen=True):
    """Where the skills of a library come from."""

    bundled: frozenset[str]
    hub: LockFile
    usage: UsageFile

    def origin(self, name: str) -> Origin:
        if name in self.bundled:
            return Origin.BUNDLED
        if self.hub.get(name) is not None:
            return Origin.HUB
        return Origin.AGENT if self.usage.get(name).created_by == "agent" else Origin.USER


class Library:
    """Reads a library, and rereads only what changed."""

    def __init__(self, files: SkillFiles) -> None:
        self.files = files
        self._manifest: Mapping[str, FileFact] = {}
        self._catalogue = Catalogue()
        self._read: dict[str, tuple[FileFact, SkillDocument]] = {}

    async def catalogue(self) -> Catalogue:
        tree = await self.files.tree()
        manifest = {path: fact for path, fact in tree.items() if not _is_hidden(path)}
        if manifest != self._manifest:
            self._catalogue = await self._load(manifest)
            self._manifest = manifest
        return self._catalogue

    def facts(self, folder: str) -> Mapping[str, FileFact]:
        """Return the files of a skill as of the last reading, without those that are too large."""
        skill = next((each for each in self._catalogue.skills if each.folder == folder), None)
        paths = () if skill is None else (DOCUMENT, *skill.files)
        found = {path: self._manifest[f"{folder}/{path}"] for path in paths}
        return {path: fact for path, fact in found.items() if fact.size_bytes <= MAX_SUPPORT_BYTES}

    async def provenance(self) -> Provenance:
        bundled = await self.files.read(BUNDLED, MAX_LIST_BYTES)
        hub = await self.files.read(HUB, MAX_LIST_BYTES)
        usage = UsageFile.parse(await self.files.read(USAGE, MAX_LIST_BYTES))
        return Provenance(_bundled(bundled), LockFile.parse(hub), usage)

    async def document(self, skill: Skill) -> str:
        """Return a skill's SKILL.md; FileRefused if it cannot be read."""
        return await self.text(f"{skill.folder}/{DOCUMENT}")

    async def text(self, path: str) -> str:
        """Return a text file for display; FileRefused if it is not text."""
        return await self._text(path, "replace")

    async def exact(self, path: str) -> str:
        """Return a text file for editing; FileRefused if some of it would be lost."""
        try:
            return await self._text(path, "strict")
        except UnicodeDecodeError:
            raise FileRefused(
                f"{path} is not UTF-8, so that it would not survive a change"
            ) from None

    async def _text(self, path: str, errors: str) -> str:
        data = await self.files.read(path, MAX_DOCUMENT_BYTES)
        if data is None:
            raise FileRefused(f"{path} is not there")
        text = decode_text(data, errors)
        if "\0" in text:
            raise FileRefused(f"{path} is no text; it has {len(data):,} bytes")
        return text

    async def _load(self, manifest: Mapping[str, FileFact]) -> Catalogue:
        folders = skill_folders(manifest)
        documents = {folder: await self._document(folder, manifest) for folder in folders}
        self._read = {
            folder: (manifest[f"{folder}/{DOCUMENT}"], document)
            for folder, document in documents.items()
            if document is not None
        }
        files = _support_files(manifest)
        skills = [
            _skill(folder, document, files.get(folder, ()))
            for folder, document in documents.items()
            if document is not None
        ]
        skills.sort(key=lambda skill: (skill.category, skill.name))
        categories = {skill.category for skill in skills if skill.category}
        about = {each: await self._about(each, manifest) for each in sorted(categories)}
        return Catalogue(tuple(skills), {name: text for name, text in about.items() if text})

    async def _document(
        self, folder: str, manifest: Mapping[str, FileFact]
    ) -> SkillDocument | None:
        path = f"{folder}/{DOCUMENT}"
        known = self._read.get(folder)
        if known is not None and known[0] == manifest[path]:
            return known[1]
        try:
            text = await self.text(path)
        except FileRefused as refused:
            _log.warning("a skill is left out: %s", refused)
            return None
        found = await asyncio.to_thread(read, text, folder.rpartition("/")[2])
        # The catalogue stays in memory, so it holds no texts; they are read on request.
        return SkillDocument(found.name, found.description, found.fields, "")

    async def _about(self, category: str, manifest: Mapping[str, FileFact]) -> str:
        path = f"{category}/{DESCRIPTION}"
        if path not in manifest:
            return ""
        try:
            return (await asyncio.to_thread(read, await self.text(path), category)).description
        except FileRefused as refused:
            _log.warning("a category's description is left out: %s", refused)
            return ""


def _is_hidden(path: str) -> bool:
    return path.startswith(".") or "/." in path


def _support_files(manifest: Mapping[str, FileFact]) -> Mapping[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(manifest):
        folder, _, name = path.rpartition("/")
        skill, _, kind = folder.rpartition("/")
        if skill and kind in SUPPORT_FOLDERS:
            found[skill].append(f"{kind}/{name}")
    return found


def _skill(folder: str, document: SkillDocument, files: Sequence[str]) -> Skill:
    category, _, name = folder.rpartition("/")
    return Skill(
        name=name,
        category=category,
        description=document.description,
        conditions=document.conditions,
        tags=document.tags,
        files=tuple(files),
    )


def _bundled(data: bytes | None) -> frozenset[str]:
    lines = (data or b"").decode(errors="replace").splitlines()
    return frozenset(line.partition(":")[0].strip() for line in lines if ":" in line)


async def change_usage(files: SkillFiles, name: str, change: Callable[[Usage], Usage]) -> None:
    """Change a skill's usage record; the library must be locked."""
    usage = UsageFile.parse(await files.read(USAGE, MAX_LIST_BYTES))
    before = usage.get(name)
    after = change(before)
    if after != before:
        usage.put(name, after)
        await files.write(USAGE, usage.encoded())


class Trust(StrEnum):
    """How far a skill is trusted."""

    BUNDLED = "bundled"
    TRUSTED = "trusted"
    """From a hub that the settings trust."""
    COMMUNITY = "community"
    AGENT_CREATED = "agent-created"


def trust_of(origin: Origin, note: Installed) -> str:
    """Return a skill's trust; empty if it is the user's own."""
    match origin:
        case Origin.BUNDLED:
            return Trust.BUNDLED
        case Origin.HUB:
            return Trust.TRUSTED if note.trust_level == Trust.TRUSTED else Trust.COMMUNITY
        case Origin.AGENT:
            return Trust.AGENT_CREATED
        case Origin.USER:
            return ""


class Protection(StrEnum):
    """Why a skill must not change."""

    NONE = ""
    BUNDLED = "it came with Hermes"
    HUB = "it was installed from a hub"
    PINNED = "the user has pinned it"


def protection(origin: Origin, usage: Usage) -> Protection:
    """Return why a skill must not change; NONE, which is falsy, if it may."""
    if origin is Origin.BUNDLED:
        return Protection.BUNDLED
    if origin is Origin.HUB:
        return Protection.HUB
    return Protection.PINNED if usage.pinned else Protection.NONE
