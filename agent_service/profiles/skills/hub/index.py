"""Skills that a web site lists, according to agentskills.io's discovery format.

Both layouts in use are read: in 0.2 each skill is one artifact with a digest, in 0.1 a folder of
files.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urljoin

import msgspec
from msgspec import Struct, field

from agent_service.profiles.skills.document import is_name
from agent_service.profiles.skills.hub.package import (
    MAX_BYTES,
    MAX_OFFERS,
    Offer,
    Package,
    packaged,
    partition,
    unpacked,
)
from agent_service.profiles.skills.hub.reach import HubReach
from agent_service.profiles.skills.hub.source import HubFailed, HubRefused, Kind, Source
from agent_service.profiles.skills.names import DOCUMENT, MAX_SUPPORT_BYTES
from services.validation import decode

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
PLACES = ("/.well-known/agent-skills/index.json", "/.well-known/skills/index.json")
MAX_INDEX_BYTES = 2 * 1024 * 1024
MAX_ARCHIVE_BYTES = 2 * MAX_BYTES
_KNOWN = re.compile(r"https://schemas\.agentskills\.io/discovery/0\.2\.\d+/schema\.json")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Entry(Struct, frozen=True, omit_defaults=True):
    """A skill in an index."""

    name: str
    description: str = ""
    type: str = ""
    url: str = ""
    digest: str = ""
    files: tuple[str, ...] = ()
    """Files of layout 0.1, which has no artifacts."""


class Listing(Struct, frozen=True, omit_defaults=True):
    """An index file."""

    skills: tuple[Entry, ...]
    schema: str = field(default="", name="$schema")


class SiteIndex:
    """A fetched index."""

    version = ""

    def __init__(self, reach: HubReach, source: Source, url: str, listing: Listing) -> None:
        """`url` is the index's address after redirects."""
        self.source = source
        self._url = url
        self._reach = reach
        self._entries = {entry.name: entry for entry in listing.skills}
        self._has_artifacts = bool(listing.schema)

    async def offers(self) -> Sequence[Offer]:
        return [
            Offer(name, entry.description[:1024], name)
            for name, entry in sorted(self._entries.items())
        ]

    async def take(self, offer: Offer) -> Package:
        entry = self._entries[offer.name]
        files = await (self._artifact(entry) if self._has_artifacts else self._files(entry))
        return await asyncio.to_thread(packaged, entry.name, files)

    async def _artifact(self, entry: Entry) -> Mapping[str, bytes]:
        if not _DIGEST.fullmatch(entry.digest):
            raise HubRefused(
                f"the index gives no digest of {entry.name}, so nothing vouches for it"
            )
        is_archive = entry.type == "archive"
        if not is_archive and entry.type != "skill-md":
            raise HubRefused(f"{entry.name} is of type {entry.type[:40]!r}, which is not known")
        url = urljoin(self._url, entry.url)
        most = MAX_ARCHIVE_BYTES if is_archive else MAX_SUPPORT_BYTES
        data = await self._reach.get(url, most)
        digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
        if f"sha256:{digest}" != entry.digest:
            raise HubRefused(
                f"{entry.name} is not what its index says: it has the digest sha256:{digest}, and "
                f"{entry.digest} is listed"
            )
        if not is_archive:
            return {DOCUMENT: data}
        return await asyncio.to_thread(unpacked, data, entry.name)

    async def _files(self, entry: Entry) -> Mapping[str, bytes]:
        listed = dict.fromkeys(entry.files or (DOCUMENT,), 0)
        keep, left_out = partition(entry.name, listed)
        base = urljoin(self._url, f"{quote(entry.name)}/")
        found: dict[str, bytes] = dict.fromkeys(left_out, b"")
        left = MAX_BYTES
        for path in keep:
            found[path] = await self._reach.get(urljoin(base, quote(path)), MAX_SUPPORT_BYTES)
            left -= len(found[path])
            if left < 0:
                raise HubRefused(f"{entry.name} has more than {MAX_BYTES:,} bytes")
        return found


async def open_index(reach: HubReach, source: Source) -> SiteIndex:
    """Fetch an index."""
    url, data = await reach.fetched(source.url, MAX_INDEX_BYTES)
    try:
        listing = decode(data, Listing)
    except (msgspec.MsgspecError, RecursionError):
        raise HubRefused(f"{source.url} is no index of skills") from None
    if listing.schema and not _KNOWN.fullmatch(listing.schema):
        raise HubRefused(f"{source.url} is of a layout that is not known: {listing.schema[:120]}")
    if len(listing.skills) > MAX_OFFERS:
        raise HubRefused(f"{source.url} lists more than {MAX_OFFERS:,} skills")
    names = [entry.name for entry in listing.skills]
    bad = next((name for name in names if not is_name(name)), None)
    if bad is not None:
        raise HubRefused(f"{source.url} lists {bad[:80]!r}, which is no name of a skill")
    if len(set(names)) != len(names):
        raise HubRefused(f"{source.url} lists a name twice")
    return SiteIndex(reach, source, url, listing)


async def find_index(reach: HubReach, source: Source) -> SiteIndex:
    """Find the index of a site; HubFailed if it has none."""
    for place in PLACES:
        try:
            found = Source(Kind.INDEX, source.url.rstrip("/") + place)
            return await open_index(reach, found)
        except HubFailed:
            continue
    raise HubFailed(
        f"{source.text} is no git repository, and has no {' or '.join(PLACES)}; or it cannot be "
        "reached"
    )
