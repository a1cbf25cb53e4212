"""A library as read once, under its lock, to work out a change."""

from collections import Counter
from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

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
    """A skill with its record, text and files."""

    skill: Skill
    origin: Origin
    usage: Usage
    text: str = ""
    """The text of SKILL.md; empty if it was not requested, or a file cannot be read whole."""
    files: Mapping[str, bytes] = {}
    """Support files, such as references/api.md, if requested."""

    @property
    def protection(self) -> Protection:
        return protection(self.origin, self.usage)


class Snapshot(Struct, frozen=True):
    """A library's content."""

    skills: Mapping[str, KnownSkill]
    """Skills by name; without ambiguous names."""
    taken: frozenset[str]
    archived: frozenset[str]
    usage: UsageFile
    usage_data: bytes | None


async def take_snapshot(library: Library, wanted: Collection[str] = ()) -> Snapshot:
    """Read a library, with the texts and files of the wanted skills."""
    catalogue, provenance = await library.catalogue(), await library.provenance()
    counts = Counter(skill.name for skill in catalogue.skills)
    skills: dict[str, KnownSkill] = {}
    for skill in catalogue.skills:
        if counts[skill.name] == 1:
            held = KnownSkill(
                skill, provenance.origin(skill.name), provenance.usage.get(skill.name)
            )
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
        files = {
            path: await library.files.read(f"{folder}/{path}", MAX_SUPPORT_BYTES) or b""
            for path in held.skill.files
        }
    except FileRefused:
        return held
    return replace(held, text=text, files=files)
