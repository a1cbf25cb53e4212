"""Installs, updates and removes one profile's hub skills, each atomically."""

import hashlib
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from agent_service.profiles.skills.files import SkillFiles
from agent_service.profiles.skills.hub.changes import HubShelf, Noted, Shelf
from agent_service.profiles.skills.hub.package import Offer, Opened, Package, chosen
from agent_service.profiles.skills.hub.scan_worker import looked_through
from agent_service.profiles.skills.hub.source import (
    HubFailed,
    HubRefused,
    Kind,
    Source,
    parse_source,
)
from agent_service.profiles.skills.hub.sources import Sources
from agent_service.profiles.skills.hub.verdicts import Finding, Review, Verdict
from agent_service.profiles.skills.journal import content_digest
from agent_service.profiles.skills.library import Installed, Trust
from agent_service.profiles.skills.usage import timestamp
from services.clock import Clock

_log = logging.getLogger(__name__)


class Status(StrEnum):
    """The outcome for a skill."""

    INSTALLED = "installed"
    UPDATED = "updated"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    ASKS = "asks"
    """Not done: a person must review the findings and pass the consent."""
    REFUSED = "refused"
    FAILED = "failed"
    """Not done; the same may succeed later."""


class Step(Struct, frozen=True):
    """Kind of request."""

    text: str


class Outcome(Struct, frozen=True):
    """The outcome for one skill."""

    name: str
    status: Status
    message: str = ""
    source: str = ""
    version: str = ""
    digest: str = ""
    trust: str = ""
    review: Review | None = None
    """None if it was not scanned."""
    files: Sequence[str] = ()
    consent: str = ""
    """The token that accepts exactly this content with exactly these findings."""


class HubOptions(Struct, frozen=True):
    """The conditions of a request."""

    consents: frozenset[str] = frozenset()
    dry_run: bool = False


class Candidate(Struct, frozen=True):
    """A skill that may be installed."""

    package: Package
    source: Source
    place: str
    commit: str
    trust: Trust
    review: Review
    is_known: bool = False
    """It is the installed version, and was not scanned again."""

    def outcome(self, status: Status, message: str = "", consent: str = "") -> Outcome:
        return Outcome(
            self.package.name,
            status,
            message,
            self.source.text,
            self.commit or self.package.version,
            self.package.digest,
            self.trust.value,
            None if self.is_known else self.review,
            tuple(self.package.files),
            consent,
        )

    def consent(self, there: str) -> str:
        seen = (self.package.name, self.package.digest, self.review.verdict.value, there)
        families = sorted({each.family for each in self.review.findings})
        return hashlib.sha256("\n".join([*seen, *families]).encode()).hexdigest()[:32]


Told = AsyncGenerator[Step | Outcome]


class Hub:
    """Changes one library."""

    def __init__(self, files: SkillFiles, sources: Sources, clock: Clock) -> None:
        self._shelf = HubShelf(files)
        self._files = files
        self._sources = sources
        self._clock = clock

    async def install(self, text: str, names: Sequence[str], terms: HubOptions) -> Told:
        """Install skills of a source; HubRefused or HubFailed if the source is unavailable."""
        source, skill = self._sources.resolve(text)
        yield Step(f"fetching {source.text}")
        async with self._sources.opened(source) as opened:
            wanted = [*names, *([skill] if skill else [])]
            for offer in chosen(await opened.offers(), wanted, opened.source):
                yield Step(f"looking through {offer.name}")
                try:
                    candidate = await self._candidate(opened, offer)
                except (HubRefused, HubFailed) as error:
                    yield _not_had(offer.name, opened.source.text, error)
                    continue
                yield await self._put(candidate, terms, is_update=False)

    async def update(self, names: Sequence[str], terms: HubOptions) -> Told:
        shelf = await self._shelf.read()
        by_source: defaultdict[str, list[str]] = defaultdict(list)
        for name in names or shelf.lock.names:
            entry = shelf.lock.get(name)
            if entry is None:
                yield Outcome(name, Status.REFUSED, _not_of_a_hub(shelf, name))
            elif shelf.folder(name) and shelf.provenance.usage.get(name).pinned:
                status = Status.REFUSED if names else Status.UNCHANGED
                why = f"it is pinned; `hermes skills unpin {name}` lets it change"
                yield Outcome(name, status, why, entry.source)
            elif not names and not shelf.folder(name):
                why = f"it was archived; `hermes skills update {name}` restores it"
                yield Outcome(name, Status.UNCHANGED, why, entry.source)
            else:
                by_source[entry.source].append(name)
        for text, members in by_source.items():
            yield Step(f"fetching {text}")
            try:
                async with self._sources.opened(parse_source(text)) as opened:
                    offers = await opened.offers()
                    for name in members:
                        yield Step(f"looking through {name}")
                        yield await self._updated(opened, offers, name, shelf, terms)
            except (HubRefused, HubFailed) as error:
                for name in members:
                    yield Outcome(name, Status.FAILED, str(error), text)

    async def remove(self, name: str) -> Outcome:
        """Move a hub skill to the archive, and forget its source."""
        async with self._files.locked():
            await self._shelf.recover()
            shelf = await self._shelf.read()
            entry = shelf.lock.get(name)
            if entry is None:
                raise HubRefused(_not_of_a_hub(shelf, name))
            folder, now = shelf.folder(name), self._clock.now()
            target = shelf.archive_for(name, now)
            note = Noted(name, None, timestamp(now), folder=folder)
            await self._shelf.move(folder, target, note)
        _log.info("removed the skill %s of %s", name, entry.source)
        told = f"it is kept in {target}" if folder else "its folder was gone already"
        return Outcome(name, Status.REMOVED, told, entry.source)

    async def recover(self) -> None:
        if await self._shelf.is_whole():
            return
        async with self._files.locked():
            await self._shelf.recover()

    async def _candidate(self, opened: Opened, offer: Offer, known: str = "") -> Candidate:
        package = await opened.take(offer)
        is_known = package.digest == known
        review = Review() if is_known else await looked_through(package.name, package.files)
        review = review.with_findings(_left_out(package))
        trust = self._sources.trust(opened.source)
        at = (opened.source, offer.place, opened.version)
        return Candidate(package, *at, trust, review, is_known)

    async def _updated(
        self, opened: Opened, offers: Sequence[Offer], name: str, shelf: Shelf, terms: HubOptions
    ) -> Outcome:
        entry = shelf.lock.get(name) or Installed()
        same = [each for each in offers if each.place == entry.identifier and each.name == name]
        same = same or [each for each in offers if each.name == name]
        if len(same) != 1:
            gone = "is no longer there" if not same else "is there several times"
            return Outcome(name, Status.FAILED, f"{name} {gone} in {entry.source}", entry.source)
        try:
            known = entry.content_hash if shelf.folder(name) else ""
            candidate = await self._candidate(opened, same[0], known)
        except (HubRefused, HubFailed) as error:
            return _not_had(name, entry.source, error)
        return await self._put(candidate, terms, is_update=True)

    async def _put(self, candidate: Candidate, terms: HubOptions, *, is_update: bool) -> Outcome:
        name, digest = candidate.package.name, candidate.package.digest
        done = Status.UPDATED if is_update else Status.INSTALLED
        async with self._files.locked():
            await self._shelf.recover()
            shelf = await self._shelf.read()
            entry, folder = shelf.lock.get(name), shelf.folder(name)
            there = await self._shelf.content(shelf, folder)
            here = content_digest(there) if folder else ""
            if is_update:
                problem = _not_of_a_hub(shelf, name) if entry is None else ""
            elif entry is not None and folder:
                return _again(candidate, entry, here)
            else:
                problem = _conflict(shelf, name)
            if problem:
                return candidate.outcome(Status.REFUSED, problem)
            before = entry if entry is not None and is_update else Installed()
            is_changed = bool(folder) and here != before.content_hash
            if candidate.is_known or (folder and digest in (before.content_hash, here)):
                told = "you have changed it here" if here != digest else ""
                return candidate.outcome(Status.UNCHANGED, told)
            candidate = _compared(candidate, before)
            why = "you have changed it here; what you have is put into the archive first"
            if (stopped := _stopped(candidate, terms, here, why if is_changed else "")) is not None:
                return stopped
            if terms.dry_run:
                return candidate.outcome(done, f"it would be {done}")
            now = self._clock.now()
            kept_at = shelf.archive_for(name, now) if is_changed else ""
            record = self._record(candidate, folder or name, before)
            note = Noted(name, record, timestamp(now), is_new=not folder)
            await self._shelf.put(folder or name, there, candidate.package.files, kept_at, note)
        _log.info("%s the skill %s of %s", done, name, candidate.source.text)
        return candidate.outcome(done, f"what you had is in {kept_at}" if kept_at else "")

    def _record(self, candidate: Candidate, folder: str, before: Installed) -> Installed:
        now = timestamp(self._clock.now())
        families = {each.family for each in candidate.review.findings}
        return Installed(
            source=candidate.source.text,
            identifier=candidate.place,
            trust_level=candidate.trust.value,
            scan_verdict=candidate.review.verdict.value,
            content_hash=candidate.package.digest,
            install_path=folder,
            files=sorted(candidate.package.files),
            version=candidate.package.version,
            commit=candidate.commit,
            accepted=sorted(families),
            installed_at=before.installed_at or now,
            updated_at=now,
        )


def _stopped(candidate: Candidate, terms: HubOptions, there: str, why: str) -> Outcome | None:
    verdict, name = candidate.review.verdict, candidate.package.name
    if verdict is Verdict.DANGEROUS:
        told = f"{name} is dangerous and is not installed, whoever accepts it"
        return candidate.outcome(Status.REFUSED, told)
    consent = candidate.consent(there)
    if (verdict is Verdict.SAFE and not why) or consent in terms.consents:
        return None
    found = "look at what was found" if verdict is Verdict.CAUTION else ""
    told = "; ".join(filter(None, (found, why)))
    return candidate.outcome(Status.ASKS, told, consent)


def _again(candidate: Candidate, entry: Installed, here: str) -> Outcome:
    """Return the outcome for a skill that is already installed; `here` is its digest."""
    name = candidate.package.name
    if entry.source != candidate.source.text:
        why = f"{name} is installed from {entry.source}; `hermes skills remove {name}` makes room"
        return candidate.outcome(Status.REFUSED, why)
    if here == candidate.package.digest == entry.content_hash:
        return candidate.outcome(Status.UNCHANGED, "it is installed already")
    why = f"{name} is installed already; `hermes skills update {name}` brings what is new"
    return candidate.outcome(Status.REFUSED, why)


def _conflict(shelf: Shelf, name: str) -> str:
    if found := shelf.catalogue.find(name):
        return (
            f"there is a skill {found[0].folder} already; rename its folder, or put it away with "
            f"`hermes skills archive {name}`"
        )
    if any(path.startswith(f"{name}/") for path in shelf.paths):
        return f"there is a folder {name} in the library that is no skill; rename it first"
    return ""


def _compared(candidate: Candidate, entry: Installed) -> Candidate:
    version = candidate.package.version
    if candidate.source.kind is not Kind.INDEX or not version or version != entry.version:
        return candidate
    finding = Finding(Verdict.CAUTION, "same-version", "SKILL.md", 0, version)
    return replace(candidate, review=candidate.review.with_findings([finding]))


def _left_out(package: Package) -> Sequence[Finding]:
    return [Finding(Verdict.CAUTION, "left-out", path, 0) for path in package.left_out]


def _not_had(name: str, source: str, error: HubRefused | HubFailed) -> Outcome:
    status = Status.REFUSED if isinstance(error, HubRefused) else Status.FAILED
    return Outcome(name, status, str(error), source)


def _not_of_a_hub(shelf: Shelf, name: str) -> str:
    known = ", ".join(shelf.lock.names) or "none"
    return (
        f"no skill {name!r} was installed from a hub; installed are: {known}. Your own are put "
        "away with `hermes skills archive`"
    )
