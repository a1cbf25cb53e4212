"""What a source offers, and what every kind of source can be asked."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from agent_service.skills.document import read
from agent_service.skills.hub.errors import HubRefused
from agent_service.skills.hub.package import Package
from agent_service.skills.hub.source import Source
from agent_service.skills.names import DOCUMENT

MAX_OFFERS = 1_000


class Offer(Struct, frozen=True):
    """A skill that can be had."""

    name: str
    description: str
    place: str
    """Where in the source it is: a folder, or the URL of what is fetched; empty is all of it."""
    tags: Sequence[str] = ()


class Opened(Protocol):
    """A source that was reached."""

    @property
    def source(self) -> Source:
        """What it turned out to be."""
        ...

    @property
    def version(self) -> str:
        """The commit that it stands at; empty where it has none."""
        ...

    async def offers(self) -> Sequence[Offer]:
        """The skills that it has, by name."""
        ...

    async def take(self, offer: Offer) -> Package:
        """A skill with all that it has; HubRefused where it is none."""
        ...


def offer_of(place: str, document: bytes) -> Offer:
    """What a SKILL.md in a folder says of itself."""
    folder = place.rpartition("/")[2]
    found = read(document.decode(errors="replace"), folder)
    named = found.fields.get("name", "")
    name = folder or (named.strip() if isinstance(named, str) else "")
    return Offer(name, found.description[:1024], place, found.tags)


def skill_folders(paths: Sequence[str]) -> Sequence[str]:
    """The folders with a SKILL.md that are in no other such folder."""
    folders = sorted(
        path.removesuffix(DOCUMENT).rstrip("/")
        for path in paths
        if path == DOCUMENT or path.endswith(f"/{DOCUMENT}")
    )
    if len(folders) > MAX_OFFERS:
        raise HubRefused(f"it has more than {MAX_OFFERS:,} skills; name a #FOLDER of it")
    if "" in folders:
        return [""]
    known = set(folders)
    return [each for each in folders if not any(above in known for above in _above(each))]


def chosen(offers: Sequence[Offer], wanted: Sequence[str], source: Source) -> Sequence[Offer]:
    """Of what is offered what somebody wants; HubRefused where that is not clear."""
    names = ", ".join(sorted({each.name for each in offers})[:40])
    if not offers:
        raise HubRefused(f"{source.text} has no skills: no folder in it has a {DOCUMENT}")
    if not wanted:
        if len(offers) == 1:
            return offers
        raise HubRefused(f"{source.text} has {len(offers)} skills; say which: {names}")
    found: list[Offer] = []
    for name in dict.fromkeys(wanted):
        same = [each for each in offers if name in (each.name, each.place)]
        if len(same) > 1:
            places = ", ".join(each.place for each in same)
            raise HubRefused(f"{source.text} has several skills {name}: {places}; say which")
        if not same:
            raise HubRefused(f"{source.text} has no skill {name!r}; it has {names}")
        found += same
    return found


def _above(folder: str) -> list[str]:
    parts = folder.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
