"""Keeps out of prompts and results what in a skill tries to give the agent orders of another kind.

What is stored stays as it is: a person who looks at a skill sees what it really says.
"""

import asyncio
import logging

from msgspec import Struct
from msgspec.structs import replace

from agent_service.security.threats import Source, ThreatScanner
from agent_service.skills.library import Catalogue

_log = logging.getLogger(__name__)


class Screened(Struct, frozen=True):
    """A text as the model reads it."""

    text: str
    families: tuple[str, ...]
    """What was found in it, and is blocked; mostly nothing."""


class SkillScreen:
    """Looks through what one library says."""

    def __init__(self, scanner: ThreatScanner) -> None:
        self._scanner = scanner
        self._seen, self._shown = Catalogue(), Catalogue()

    async def catalogue(self, catalogue: Catalogue) -> Catalogue:
        """The catalogue with what offends in its descriptions blocked; the same one costs once."""
        if catalogue is not self._seen:
            shown = await asyncio.to_thread(self._described, catalogue)
            self._seen, self._shown = catalogue, shown
        return self._shown

    async def text(self, name: str, text: str) -> Screened:
        """A text of the skill of that name with each offending line blocked."""
        return await asyncio.to_thread(self._cleaned, name, text)

    def _described(self, catalogue: Catalogue) -> Catalogue:
        described = {skill.folder: skill.description for skill in catalogue.skills}
        about = dict(catalogue.categories or {})
        shown = {name: self._cleaned(name, text) for name, text in (about | described).items()}
        skills = tuple(
            replace(skill, description=shown[skill.folder].text) for skill in catalogue.skills
        )
        blocked = {name: ", ".join(each.families) for name, each in shown.items() if each.families}
        return Catalogue(skills, {name: shown[name].text for name in about}, blocked)

    def _cleaned(self, name: str, text: str) -> Screened:
        cleaned, threats = self._scanner.clean(text, Source.SKILL)
        families = tuple(sorted({threat.family for threat in threats}))
        if families:
            _log.warning("%s is not shown to models as it is: %s", name, ", ".join(families))
        return Screened(cleaned, families)
