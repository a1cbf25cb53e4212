"""One profile's skills for tools and callers, and the libraries of all profiles."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from agent_service.profiles.curation.state import forget_first_look
from agent_service.profiles.skills.bundled_skills import BundledSkills, UnmodifiedSkills
from agent_service.profiles.skills.document import SkillContext
from agent_service.profiles.skills.files import FileFact, FileRefused, SkillFiles
from agent_service.profiles.skills.index import index
from agent_service.profiles.skills.library import (
    Catalogue,
    Installed,
    Library,
    Origin,
    Provenance,
    Skill,
    trust_of,
)
from agent_service.profiles.skills.manage import SkillManager
from agent_service.profiles.skills.names import DOCUMENT, MAX_SUPPORT_BYTES, support_file
from agent_service.profiles.skills.usage import SkillState, Usage
from agent_service.security.threats import Screened, Source, ThreatScanner
from services.clock import Clock

_log = logging.getLogger(__name__)


class SkillScreen:
    """Screens the texts of one library."""

    def __init__(self, scanner: ThreatScanner, bundled: BundledSkills | None) -> None:
        self._scanner, self._bundled = scanner, bundled
        self._seen, self._shown = Catalogue(), Catalogue()

    async def catalogue(self, catalogue: Catalogue) -> Catalogue:
        """Return the catalogue with offending descriptions blocked; results are cached."""
        if catalogue is not self._seen:
            ours = "" if self._bundled is None else await self._bundled.documents()
            shown = await asyncio.to_thread(self._described, catalogue, ours)
            self._seen, self._shown = catalogue, shown
        return self._shown

    async def text(self, name: str, text: str) -> tuple[str, tuple[str, ...]]:
        """Return a skill's text with offending lines blocked, and the families of these lines."""
        return await asyncio.to_thread(self._cleaned, name, text)

    def _described(self, catalogue: Catalogue, ours: str) -> Catalogue:
        described = {skill.folder: skill.description for skill in catalogue.skills}
        about = dict(catalogue.categories or {})
        shown = {
            name: (text, ()) if text in ours else self._cleaned(name, text)
            for name, text in (about | described).items()
        }
        skills = tuple(
            replace(skill, description=shown[skill.folder][0]) for skill in catalogue.skills
        )
        blocked = {name: ", ".join(found) for name, (_, found) in shown.items() if found}
        return Catalogue(skills, {name: shown[name][0] for name in about}, blocked)

    def _cleaned(self, name: str, text: str) -> tuple[str, tuple[str, ...]]:
        cleaned, threats = self._scanner.clean(text, Source.SKILL)
        families = tuple(sorted({threat.family for threat in threats}))
        if families:
            _log.warning("%s is not shown to models as it is: %s", name, ", ".join(families))
        return cleaned, families


PLACE = "/skills"
"""The sandbox folder with the session's skills, each in a folder of its name."""
LOADED = "loaded_skills"
"""The session note that holds the folders of loaded skills."""

PROFILES_KEPT = 64


class SkillRecord(Struct, frozen=True):
    """A skill with its origin and use."""

    skill: Skill
    origin: Origin
    usage: Usage
    note: Installed = Installed()

    @property
    def trust(self) -> str:
        return trust_of(self.origin, self.note)


class ProfileSkills(SkillManager):
    """One profile's skills."""

    def __init__(
        self,
        files: SkillFiles,
        clock: Clock,
        scanner: ThreatScanner,
        bundled: BundledSkills | None = None,
    ) -> None:
        """`bundled` is copied into the library before it is first read."""
        super().__init__(Library(files), clock)
        self._bundled = bundled
        self._has_bundled = bundled is None
        self._copying = asyncio.Lock()
        self._screen = SkillScreen(scanner, bundled)

    async def catalogue(self) -> Catalogue:
        await self.ready()
        return await self._library.catalogue()

    async def ready(self) -> None:
        if self._has_bundled or self._bundled is None:
            return
        async with self._copying:
            if self._has_bundled:
                return
            try:
                await self._bundled.copy(self._library.files)
            except FileRefused as error:
                _log.warning("not all skills that come with Hermes are copied: %s", error)
            self._has_bundled = True

    async def own(self) -> UnmodifiedSkills | None:
        """Return the unmodified bundled skills, which another Hermes has too."""
        await self.ready()
        return None if self._bundled is None else await self._bundled.own(self._library.files)

    @asynccontextmanager
    async def without_bundled(self) -> AsyncGenerator[None]:
        """Remove unmodified bundled skills until the library is next used.

        This also forgets when the curator first looked at it, which it does again within seconds.
        """
        async with self._copying:
            if self._bundled is not None:
                await self._bundled.withdraw(self._library.files)
                self._has_bundled = False
            await forget_first_look(self._library.files)
            yield

    async def offered(self) -> Catalogue:
        """Return the catalogue as models see it."""
        return await self._screen.catalogue(await self.catalogue())

    async def index(self, around: SkillContext) -> Screened:
        """Return the index for a session's prompt; empty if there is nothing to list."""
        return index(await self.offered(), around)

    async def records(self) -> list[SkillRecord]:
        catalogue, provenance = await self.catalogue(), await self._library.provenance()
        return [_record(skill, provenance) for skill in catalogue.skills]

    async def states(self) -> Mapping[SkillState, int]:
        found = Counter(record.usage.state for record in await self.records())
        return found | {SkillState.ARCHIVED: len(await self.archived())}

    async def record(self, skill: Skill) -> SkillRecord:
        provenance = await self._library.provenance()
        return _record(skill, provenance)

    async def find(self, name: str) -> Skill:
        """Return the skill of that name or `category/name`; BadSkill unless exactly one matches."""
        return (await self.catalogue()).only(name)

    async def text(self, skill: Skill, file_path: str = "") -> str:
        """Return a skill's SKILL.md, or one of its files."""
        if not file_path or file_path == DOCUMENT:
            return await self._library.document(skill)
        path = support_file(file_path)
        if path is None or path not in skill.files:
            has = ", ".join(skill.files) or "none"
            raise FileRefused(f"{skill.name} has no file {file_path!r}; its files: {has}")
        return await self._library.text(f"{skill.folder}/{path}")

    async def editions(self, folders: Sequence[str]) -> Mapping[str, Mapping[str, FileFact]]:
        await self.catalogue()
        return {folder: facts for folder in folders if (facts := self._library.facts(folder))}

    async def contents(self, folder: str, paths: Iterable[str]) -> Mapping[str, bytes]:
        held = {
            path: await self._library.files.read(f"{folder}/{path}", MAX_SUPPORT_BYTES)
            for path in paths
        }
        return {path: data for path, data in held.items() if data is not None}

    async def screened(self, skill: Skill, text: str) -> tuple[str, tuple[str, ...]]:
        """Return part of a skill's text as models see it, and the families of what was blocked."""
        return await self._screen.text(skill.name, text)


def _record(skill: Skill, provenance: Provenance) -> SkillRecord:
    origin, note = provenance.origin(skill.name), provenance.hub.get(skill.name) or Installed()
    return SkillRecord(skill, origin, provenance.usage.get(skill.name), note)


class SkillShelves:
    """The skills of each profile; recently used ones stay in memory."""

    def __init__(
        self,
        files: Callable[[str], SkillFiles],
        clock: Clock,
        scanner: ThreatScanner,
        bundled: BundledSkills | None = None,
    ) -> None:
        def open_skills(profile: str) -> ProfileSkills:
            return ProfileSkills(files(profile), clock, scanner, bundled)

        self.for_profile = lru_cache(PROFILES_KEPT)(open_skills)
