"""The libraries of all profiles, and one profile's skills as tools and callers use them."""

from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from agent_service.security.threats import ThreatScanner
from agent_service.skills.changes import Wanted
from agent_service.skills.document import BadSkill, Surroundings
from agent_service.skills.files import FileRefused, SkillFiles
from agent_service.skills.index import index
from agent_service.skills.library import Catalogue, Library, Origin, Skill
from agent_service.skills.manage import Notes, SkillManager
from agent_service.skills.names import DOCUMENT, support_file
from agent_service.skills.screen import Screened, SkillScreen
from agent_service.skills.usage import Usage
from services.clock import Clock

PROFILES_KEPT = 64
FRESH_S = 1.0
"""How old the list of skills may be from which a new session's prompt is made; what is changed
through here shows at once."""


class SkillRecord(Struct, frozen=True):
    """A skill, whose it is, and how it was used."""

    skill: Skill
    origin: Origin
    usage: Usage


class ProfileSkills:
    """One profile's skills."""

    def __init__(self, files: SkillFiles, clock: Clock, scanner: ThreatScanner) -> None:
        self._library = Library(files)
        self._screen = SkillScreen(scanner)
        self._manager = SkillManager(self._library, clock)
        self._clock = clock
        self._recent: tuple[float, Catalogue] | None = None

    async def catalogue(self) -> Catalogue:
        """What there is."""
        return await self._library.catalogue()

    async def offered(self) -> Catalogue:
        """What there is, as models are told of it."""
        return await self._screen.catalogue(await self.catalogue())

    async def index(self, around: Surroundings) -> str:
        """The index for a session's prompt; empty where there is nothing to list."""
        now = self._clock.monotonic()
        if self._recent is None or now - self._recent[0] > FRESH_S:
            self._recent = (now, await self.offered())
        return index(self._recent[1], around)

    async def records(self) -> list[SkillRecord]:
        """All skills with their records."""
        catalogue, provenance = await self.catalogue(), await self._library.provenance()
        return [
            SkillRecord(skill, provenance.of(skill.name), provenance.usage.of(skill.name))
            for skill in catalogue.skills
        ]

    async def record(self, skill: Skill) -> SkillRecord:
        """A skill with its record."""
        provenance = await self._library.provenance()
        return SkillRecord(skill, provenance.of(skill.name), provenance.usage.of(skill.name))

    async def find(self, name: str) -> Skill:
        """The skill of that name, or of that `category/name`; BadSkill when it is not the only."""
        found = (await self.catalogue()).find(name)
        if len(found) == 1:
            return found[0]
        if not found:
            raise BadSkill(f"There is no skill {name!r}; skills_list shows those that there are.")
        places = ", ".join(skill.folder for skill in found)
        raise BadSkill(f"There are several skills {name!r}: {places}. Say which.")

    async def text(self, skill: Skill, file_path: str = "") -> str:
        """A skill's SKILL.md, or one of its files."""
        if not file_path or file_path == DOCUMENT:
            return await self._library.document(skill)
        path = support_file(file_path)
        if path is None or path not in skill.files:
            has = ", ".join(skill.files) or "none"
            raise FileRefused(f"{skill.name} has no file {file_path!r}; its files: {has}")
        return await self._library.text(f"{skill.folder}/{path}")

    async def screened(self, skill: Skill, text: str) -> Screened:
        """Some of a skill's text as models read it."""
        return await self._screen.text(skill.name, text)

    async def viewed(self, skill: Skill) -> None:
        """Count that it was read."""
        await self._manager.viewed(skill.name)

    async def manage(self, key: str, wanted: Wanted, notes: Notes) -> str:
        """Change the library, once for each key."""
        try:
            return await self._manager.manage(key, wanted, notes)
        finally:
            self._recent = None


class SkillShelves:
    """The skills of each profile; those used last stay read."""

    def __init__(
        self, files: Callable[[str], SkillFiles], clock: Clock, scanner: ThreatScanner
    ) -> None:
        self._files = files
        self._clock = clock
        self._scanner = scanner
        self._kept: OrderedDict[str, ProfileSkills] = OrderedDict()

    def of(self, profile: str) -> ProfileSkills:
        """One profile's skills."""
        found = self._kept.get(profile)
        if found is None:
            found = ProfileSkills(self._files(profile), self._clock, self._scanner)
            self._kept[profile] = found
        self._kept.move_to_end(profile)
        if len(self._kept) > PROFILES_KEPT:
            self._kept.popitem(last=False)
        return found
