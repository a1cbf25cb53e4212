"""Skills in the folders of a git repository, as one commit has them."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from agent_service.skills.hub.errors import HubFailed, HubRefused
from agent_service.skills.hub.git import Git, repository
from agent_service.skills.hub.offers import Offer, offer_of, skill_folders
from agent_service.skills.hub.package import Package, kept, packaged
from agent_service.skills.hub.source import Source
from agent_service.skills.names import DOCUMENT, MAX_SUPPORT_BYTES

_FILE_MODES = ("100644", "100755", "100664")


class _Entry(Struct, frozen=True):
    mode: str
    blob: str
    size_bytes: int


class Repository:
    """A repository at one commit."""

    def __init__(
        self, git: Git, source: Source, version: str, entries: Mapping[str, _Entry]
    ) -> None:
        self.source = source
        self.version = version
        self._git = git
        self._entries = entries

    async def offers(self) -> Sequence[Offer]:
        """The skills that it has."""
        folders = skill_folders(list(self._entries))
        documents = [f"{each}/{DOCUMENT}" if each else DOCUMENT for each in folders]
        read = [
            (folder, path)
            for folder, path in zip(folders, documents, strict=True)
            if self._entries[path].mode in _FILE_MODES
            and self._entries[path].size_bytes <= MAX_SUPPORT_BYTES
        ]
        texts = await self._read([path for _, path in read])
        placed = [
            (self._placed(folder), text) for (folder, _), text in zip(read, texts, strict=True)
        ]
        return await asyncio.to_thread(_offers, placed)

    async def take(self, offer: Offer) -> Package:
        """A skill with all that it has."""
        folder = offer.place.removeprefix(self.source.folder).strip("/")
        inside = f"{folder}/" if folder else ""
        entries = {
            path.removeprefix(inside): entry
            for path, entry in self._entries.items()
            if path.startswith(inside)
        }
        for path, entry in entries.items():
            if entry.mode not in _FILE_MODES:
                what = "a submodule" if entry.mode == "160000" else "a link"
                raise HubRefused(f"{offer.name} has {what}, {path!r}, which is not followed")
        sizes = {path: entry.size_bytes for path, entry in entries.items()}
        keep, left_out = kept(offer.name, sizes)
        texts = await self._read([inside + path for path in keep])
        name = offer.place.rpartition("/")[2]
        files = dict(zip(keep, texts, strict=True))
        return await asyncio.to_thread(packaged, name, files, left_out)

    def _placed(self, folder: str) -> str:
        return "/".join(part for part in (self.source.folder, folder) if part)

    async def _read(self, paths: Sequence[str]) -> Sequence[bytes]:
        entries = [self._entries[path] for path in paths]
        total = sum(entry.size_bytes for entry in entries)
        if total > 64 * 1024 * 1024:
            raise HubRefused(f"{self.source.text} is too large; name a #FOLDER of it")
        return await self._git.blobs([entry.blob for entry in entries], total) if entries else []


@asynccontextmanager
async def open_repository(
    source: Source, url: str, addresses: Sequence[str]
) -> AsyncGenerator[Repository]:
    """Fetch it from a URL, where only the addresses are connected to."""
    async with repository() as git:
        try:
            version = await git.fetch(url, source.ref, addresses)
        except HubFailed as error:
            raise HubFailed(f"{source.text} cannot be fetched: {error}") from None
        entries = _entries(await git.listing(source.folder), source)
        yield Repository(git, source, version, entries)


def _offers(placed: Sequence[tuple[str, bytes]]) -> Sequence[Offer]:
    found = [offer_of(place, text) for place, text in placed]
    return sorted(found, key=lambda each: (each.name, each.place))


def _entries(listing: bytes, source: Source) -> Mapping[str, _Entry]:
    inside = f"{source.folder}/" if source.folder else ""
    found: dict[str, _Entry] = {}
    for line in listing.split(b"\0"):
        head, tab, path = line.partition(b"\t")
        words = head.decode(errors="replace").split()
        if not tab or len(words) != 4:
            continue
        mode, _, blob, size = words
        place = path.decode(errors="replace").removeprefix(inside)
        found[place] = _Entry(mode, blob, int(size) if size.isdigit() else 0)
    if not found:
        where = f"no folder {source.folder!r}" if source.folder else "no files"
        raise HubRefused(f"{source.text} has {where}")
    return found
