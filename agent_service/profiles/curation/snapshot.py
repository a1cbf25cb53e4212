"""A library as a change of it is worked out: read once, while nobody else changes it."""

from collections import Counter
from collections.abc import Collection, Mapping

from msgspec import Struct

from agent_service.profiles.skills.files import FileRefused
from agent_service.profiles.skills.library import (
    MAX_LIST_BYTES,
    USAGE,
    Library,
    Origin,
    Protection,
    Skill,
    protection,
)
from agent_service.profiles.skills.names import DOCUMENT, MAX_SUPPORT_BYTES, archive_folders
from agent_service.profiles.skills.usage import Usage, UsageFile


class KnownSkill(Struct, frozen=True):
    """A skill with what is known of it."""

    skill: Skill
    origin: Origin
    usage: Usage
    text: str = ""
    """Of SKILL.md; empty where it was not asked for, or is not all text."""
    files: Mapping[str, bytes] = {}
    """Its support files, such as references/api.md; of those that were asked for."""
    has_large_files: bool = False
    """One of them is larger than a file of a skill may be."""

    @property
    def protection(self) -> Protection:
        """Why nothing of it is changed; NONE where it may be."""
        return protection(self.origin, self.usage)


class Snapshot(Struct, frozen=True):
    """What there is."""

    skills: Mapping[str, KnownSkill]
    """By name; those of which there are several are left out: nobody could say which is meant."""
    taken: frozenset[str]
    """Names of skills, categories and folders."""
    archived: frozenset[str]
    """Folders of the archive."""
    usage: UsageFile
    usage_data: bytes | None
    """As they are stored."""


async def taken(library: Library, wanted: Collection[str] = ()) -> Snapshot:
    """The library as it is, with the texts and the files of some of its skills."""
    catalogue, provenance = await library.catalogue(), await library.provenance()
    counts = Counter(skill.name for skill in catalogue.skills)
    skills: dict[str, KnownSkill] = {}
    for skill in catalogue.skills:
        if counts[skill.name] == 1:
            held = KnownSkill(skill, provenance.of(skill.name), provenance.usage.of(skill.name))
            full = await _filled(library, held) if skill.name in wanted else held
            skills[skill.name] = full
    tree = await library.files.tree()
    names = {path.split("/")[0] for path in tree} | set(counts)
    data = await library.files.read(USAGE, MAX_LIST_BYTES)
    return Snapshot(
        skills, frozenset(names), frozenset(archive_folders(tree)), UsageFile.parse(data), data
    )


async def _filled(library: Library, held: KnownSkill) -> KnownSkill:
    folder = held.skill.folder
    try:
        text = await library.exact(f"{folder}/{DOCUMENT}")
    except FileRefused:
        text = ""
    files: dict[str, bytes] = {}
    for path in held.skill.files:
        try:
            data = await library.files.read(f"{folder}/{path}", MAX_SUPPORT_BYTES)
        except FileRefused:
            return KnownSkill(held.skill, held.origin, held.usage, text, {}, has_large_files=True)
        if data is not None:
            files[path] = data
    return KnownSkill(held.skill, held.origin, held.usage, text, files)
