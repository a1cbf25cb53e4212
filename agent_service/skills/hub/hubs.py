"""The hubs of all profiles, and what the sources that the settings name have."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from msgspec import Struct

from agent_service.config import AgentConfig
from agent_service.home.base import HomeStore
from agent_service.security.fetch.destinations import Destinations
from agent_service.skills.document import BadSkill
from agent_service.skills.files import FileRefused, SkillFiles
from agent_service.skills.hub.auditing import audited
from agent_service.skills.hub.errors import HubFailed, HubRefused
from agent_service.skills.hub.exporting import exported
from agent_service.skills.hub.hub import Hub
from agent_service.skills.hub.offers import Offer
from agent_service.skills.hub.outcomes import Outcome
from agent_service.skills.hub.reach import HubReach
from agent_service.skills.hub.sources import HubSetting, Sources
from agent_service.skills.trust import Trust
from agent_service.stores import Stores
from services.clock import Clock
from services.errors import FailedPrecondition, HermesError

_log = logging.getLogger(__name__)


class Found(Struct, frozen=True):
    """A skill that a hub of the settings has."""

    hub: str
    trust: Trust
    offer: Offer
    is_installed: bool


class Silent(Struct, frozen=True):
    """A hub that could not be asked."""

    hub: str
    why: str


class Hubs:
    """What profiles have of hubs."""

    def __init__(
        self,
        files: Callable[[str], SkillFiles],
        homes: HomeStore,
        sources: Sources,
        clock: Clock,
    ) -> None:
        self._files = files
        self._homes = homes
        self._sources = sources
        self._clock = clock

    def of(self, profile: str) -> Hub:
        """One profile's hub."""
        return Hub(self._files(profile), self._sources, self._clock)

    async def search(
        self, words: Sequence[str], source: str, installed: frozenset[str]
    ) -> AsyncGenerator[Found | Silent]:
        """The skills of a source, or of all hubs of the settings, that all words are about."""
        for hub in self._asked(source):
            try:
                async with self._sources.opened(hub.source) as opened:
                    offers = await opened.offers()
            except (HubRefused, HubFailed) as error:
                if source:
                    raise
                yield Silent(hub.name, str(error))
                continue
            for offer in offers:
                if _is_about(offer, words):
                    yield Found(hub.name, hub.trust, offer, offer.name in installed)

    def audit(self, profile: str, names: Sequence[str]) -> AsyncGenerator[Outcome]:
        """What is to be said of skills as they are now."""
        return audited(self._files(profile), names)

    async def export(
        self, profile: str, names: Sequence[str], *, as_index: bool
    ) -> Mapping[str, bytes]:
        """The files by which skills are shared."""
        return await exported(self._files(profile), names, as_index=as_index)

    async def recover(self) -> None:
        """Finish in every profile what was decided when a process died."""
        for profile in await self._homes.profiles():
            try:
                await self.of(profile).recover()
            except (BadSkill, FileRefused, HubRefused, HermesError) as error:
                # The agent is of use without it, and the next change says it again.
                _log.error("the skills of %s: %s", profile, error)

    def _asked(self, source: str) -> Sequence[HubSetting]:
        if source:
            found, _ = self._sources.named(source)
            known = (hub.name for hub in self._sources.hubs if hub.source == found)
            return [HubSetting(next(known, source), found, self._sources.trust(found))]
        if not self._sources.hubs:
            raise FailedPrecondition(
                "no hubs are set up: name a source with --source, or list hubs in skills.hubs of "
                "config.yaml"
            )
        return self._sources.hubs


def _is_about(offer: Offer, words: Sequence[str]) -> bool:
    text = f"{offer.name} {offer.description} {' '.join(offer.tags)}".casefold()
    return all(word.casefold() in text for word in words)


def hubs_of(stores: Stores, config: AgentConfig, clock: Clock) -> Hubs:
    """The hubs as the settings have them."""
    fetch = config.fetch
    destinations = Destinations(private=fetch.private, ports=fetch.allow_ports)
    sources = Sources(HubReach(destinations), [each.setting for each in config.skills.hubs])
    return Hubs(stores.skills, stores.homes, sources, clock)
