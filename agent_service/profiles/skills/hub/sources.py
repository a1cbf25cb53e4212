"""Opens sources of every kind, and knows the configured hubs."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from agent_service.profiles.skills.hub.git import open_repository
from agent_service.profiles.skills.hub.index import find_index, open_index
from agent_service.profiles.skills.hub.package import Opened
from agent_service.profiles.skills.hub.reach import HubReach
from agent_service.profiles.skills.hub.source import (
    HubFailed,
    HubRefused,
    Kind,
    Source,
    parse_source,
)
from agent_service.profiles.skills.library import Trust


class HubSetting(Struct, frozen=True):
    """A configured hub."""

    name: str
    source: Source
    trust: Trust


class Sources:
    """Opens sources."""

    def __init__(self, reach: HubReach, hubs: Sequence[HubSetting]) -> None:
        self._reach = reach
        self.hubs = hubs

    def resolve(self, text: str) -> tuple[Source, str]:
        """Return the source that a person names, and the skill if the name includes one."""
        name, _, skill = text.partition("/")
        for hub in self.hubs:
            if hub.name == name:
                return hub.source, skill
        if name and not text.startswith(("/", ".", "http", "git+", "file:")):
            known = ", ".join(hub.name for hub in self.hubs) or "none"
            raise HubRefused(f"there is no hub {name[:80]!r}; skills.hubs has {known}")
        return parse_source(text), ""

    def trust(self, source: Source) -> Trust:
        same = (hub.trust for hub in self.hubs if _is_of(source, hub.source))
        return next(same, Trust.COMMUNITY)

    @asynccontextmanager
    async def opened(self, source: Source) -> AsyncGenerator[Opened]:
        if source.is_local:
            async with open_repository(source, source.url, ()) as found:
                yield found
        elif source.kind is Kind.INDEX:
            yield await open_index(self._reach, source)
        elif (url := await self._reach.git_url(source.url)) is not None:
            pinned = await self._reach.pinned(url)
            async with open_repository(replace(source, kind=Kind.GIT), url, pinned) as found:
                yield found
        elif source.kind is Kind.GIT:
            raise HubFailed(
                f"{source.url} is no git repository that can be fetched from: a server has to "
                "speak git's smart protocol there"
            )
        else:
            yield await find_index(self._reach, source)


def _is_of(source: Source, hub: Source) -> bool:
    """Return whether a source belongs to a hub, even after its kind was found out."""
    if (source.ref, source.folder) != (hub.ref, hub.folder):
        return False
    place = source.url.removesuffix("/index.json").partition("/.well-known/")[0]
    return hub.url in (source.url, place)
