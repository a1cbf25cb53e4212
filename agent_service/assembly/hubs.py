"""Searches, audits and exports skills of hubs, for all profiles."""

import asyncio
import gzip
import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from agent_service.assembly.stores import Stores
from agent_service.config import AgentConfig
from agent_service.profiles.home.base import HomeStore
from agent_service.profiles.skills.archives import packed
from agent_service.profiles.skills.document import BadSkill
from agent_service.profiles.skills.files import FileRefused, SkillFiles
from agent_service.profiles.skills.hub.changes import HubShelf, Shelf
from agent_service.profiles.skills.hub.hub import Hub, Outcome, Status
from agent_service.profiles.skills.hub.index import PLACES, SCHEMA, Entry, Listing
from agent_service.profiles.skills.hub.package import Offer, Package, packaged
from agent_service.profiles.skills.hub.reach import HubReach
from agent_service.profiles.skills.hub.scan_worker import looked_through
from agent_service.profiles.skills.hub.source import HubFailed, HubRefused
from agent_service.profiles.skills.hub.sources import HubSetting, Sources
from agent_service.profiles.skills.journal import content_digest
from agent_service.profiles.skills.library import Trust
from agent_service.profiles.skills.names import DOCUMENT
from agent_service.security.fetch.destinations import Destinations
from services.clock import Clock
from services.errors import FailedPrecondition, HermesError

_log = logging.getLogger(__name__)


class HubSkill(Struct, frozen=True):
    """A skill of a configured hub."""

    hub: str
    trust: Trust
    offer: Offer
    is_installed: bool


class Hubs(Struct, frozen=True):
    """The hubs of all profiles."""

    files: Callable[[str], SkillFiles]
    homes: HomeStore
    sources: Sources
    clock: Clock

    def for_profile(self, profile: str) -> Hub:
        return Hub(self.files(profile), self.sources, self.clock)

    async def search(
        self, words: Sequence[str], source: str, installed: frozenset[str]
    ) -> tuple[Sequence[HubSkill], Mapping[str, str]]:
        """The matching skills of a source or of all hubs, and the error of each unreachable hub."""
        found: list[HubSkill] = []
        silent: dict[str, str] = {}
        for hub in self._asked(source):
            try:
                async with self.sources.opened(hub.source) as opened:
                    offers = await opened.offers()
            except (HubRefused, HubFailed) as error:
                if source:
                    raise
                silent[hub.name] = str(error)
                continue
            found += [
                HubSkill(hub.name, hub.trust, offer, offer.name in installed)
                for offer in offers
                if _is_about(offer, words)
            ]
        return found, silent

    async def recover(self) -> None:
        for profile in await self.homes.profiles():
            try:
                await self.for_profile(profile).recover()
            except (BadSkill, FileRefused, HubRefused, HermesError) as error:
                # The agent works without it, and the next change reports the error again.
                _log.error("the skills of %s: %s", profile, error)

    def _asked(self, source: str) -> Sequence[HubSetting]:
        if source:
            found, _ = self.sources.resolve(source)
            known = (hub.name for hub in self.sources.hubs if hub.source == found)
            return [HubSetting(next(known, source), found, self.sources.trust(found))]
        if not self.sources.hubs:
            raise FailedPrecondition(
                "no hubs are set up: name a source with --source, or list hubs in skills.hubs of "
                "config.yaml"
            )
        return self.sources.hubs


def _is_about(offer: Offer, words: Sequence[str]) -> bool:
    text = f"{offer.name} {offer.description} {' '.join(offer.tags)}".casefold()
    return all(word.casefold() in text for word in words)


def hubs_of(stores: Stores, config: AgentConfig, clock: Clock) -> Hubs:
    """The hubs of the settings."""
    fetch = config.fetch
    destinations = Destinations(private=fetch.private, ports=fetch.allow_ports)
    sources = Sources(HubReach(destinations), [each.setting for each in config.skills.hubs])
    return Hubs(stores.skills, stores.homes, sources, clock)


async def audited(files: SkillFiles, names: Sequence[str]) -> AsyncGenerator[Outcome]:
    """The audit of each named skill, or of all that came from hubs."""
    shelf = HubShelf(files)
    there = await shelf.read()
    for name in names or there.lock.names:
        yield await _audited(shelf, there, name)


async def _audited(shelf: HubShelf, there: Shelf, name: str) -> Outcome:
    entry, found = there.lock.get(name), there.catalogue.find(name)
    if not found or (len(found) > 1 and entry is None):
        if entry is None:
            why = f"there is no skill {name!r}, or there are several"
            return Outcome(name, Status.FAILED, why)
        gone = f"it is gone; `hermes skills update {name}` brings it back"
        return Outcome(name, Status.FAILED, gone, entry.source)
    content = await shelf.content(there, there.folder(name))
    try:
        review = await looked_through(name, content)
    except HubRefused as error:
        return Outcome(name, Status.FAILED, str(error))
    digest = content_digest(content)
    is_changed = entry is not None and digest != entry.content_hash
    return Outcome(
        name=name,
        status=Status.REFUSED if is_changed else Status.UNCHANGED,
        message="it is not as it was installed: somebody has changed it here" if is_changed else "",
        source=entry.source if entry else "",
        version=(entry.commit or entry.version) if entry else "",
        digest=digest,
        trust=entry.trust_level if entry else "",
        review=review,
        files=tuple(content),
    )


SITE = PLACES[0].strip("/").rpartition("/")[0]


async def exported(
    files: SkillFiles, names: Sequence[str], *, as_index: bool
) -> Mapping[str, bytes]:
    """The files to share, by path; HubRefused if a skill cannot be shared."""
    shelf, found = HubShelf(files), list[Package]()
    try:
        there = await shelf.read()
        for name in dict.fromkeys(names):
            same = there.catalogue.find(name)
            if len(same) != 1:
                listed = ", ".join(each.folder for each in same)
                several = f"there are several skills {name}: {listed}; say which"
                none = f"there is no skill {name!r}; `hermes skills list` has those there are"
                raise HubRefused(several if same else none)
            content = await shelf.content(there, same[0].folder)
            found.append(await asyncio.to_thread(packaged, same[0].name, content))
    except (BadSkill, FileRefused) as error:
        raise HubRefused(str(error)) from None
    if len({each.name for each in found}) != len(found):
        raise HubRefused("two of them have the same name")
    return await asyncio.to_thread(_site, found) if as_index else _folders(found)


def _folders(packages: Sequence[Package]) -> Mapping[str, bytes]:
    return {f"{each.name}/{path}": data for each in packages for path, data in each.files.items()}


def _site(packages: Sequence[Package]) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    entries: list[Entry] = []
    for each in packages:
        is_archive = len(each.files) > 1
        path = f"{each.name}.tar.gz" if is_archive else f"{each.name}/{DOCUMENT}"
        data = each.files[DOCUMENT]
        if is_archive:
            data = gzip.compress(packed(each.files, lambda _: 0o644), mtime=0)
        found[f"{SITE}/{path}"] = data
        digest = hashlib.sha256(data).hexdigest()
        kind = "archive" if is_archive else "skill-md"
        about = each.document.description
        entries.append(Entry(each.name, about, kind, path, f"sha256:{digest}"))
    listing = msgspec.json.encode(Listing(tuple(entries), SCHEMA))
    found[f"{SITE}/index.json"] = msgspec.json.format(listing, indent=2) + b"\n"
    return found
