"""Skills in a folder of the machine on which the agent runs."""

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_service.skills.hub.errors import HubFailed, HubRefused
from agent_service.skills.hub.offers import Offer, offer_of, skill_folders
from agent_service.skills.hub.package import Package, kept, packaged
from agent_service.skills.hub.source import Source
from agent_service.skills.names import DOCUMENT, MAX_SUPPORT_BYTES

MAX_ENTRIES = 20_000
MAX_DEPTH = 8
LINK = -1
"""The size of what is a link, or no file."""


class LocalFolder:
    """A folder as it is."""

    version = ""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._root = Path(source.url)

    async def offers(self) -> Sequence[Offer]:
        """The skills that it has."""
        return await asyncio.to_thread(self._offers)

    async def take(self, offer: Offer) -> Package:
        """A skill with all that it has."""
        return await asyncio.to_thread(self._take, offer)

    def _offers(self) -> Sequence[Offer]:
        sizes = _sizes(self._root)
        found = [
            offer_of(place, self._read(f"{place}/{DOCUMENT}" if place else DOCUMENT))
            for place in skill_folders(list(sizes))
            if 0 <= sizes[f"{place}/{DOCUMENT}" if place else DOCUMENT] <= MAX_SUPPORT_BYTES
        ]
        return sorted(found, key=lambda each: (each.name, each.place))

    def _take(self, offer: Offer) -> Package:
        sizes = _sizes(self._root / offer.place)
        for path, size in sizes.items():
            if size == LINK:
                raise HubRefused(f"{offer.name} has a link, {path!r}, which is not followed")
        keep, left_out = kept(offer.name, sizes)
        inside = f"{offer.place}/" if offer.place else ""
        files = {path: self._read(inside + path) for path in keep}
        return packaged(offer.place.rpartition("/")[2] or offer.name, files, left_out)

    def _read(self, path: str) -> bytes:
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(self._root / path, flags), "rb") as stream:
                return stream.read(MAX_SUPPORT_BYTES + 1)
        except OSError as error:
            raise HubFailed(f"{self._root / path} cannot be read: {error.strerror}") from None


def is_repository(folder: str) -> bool:
    """Whether a folder is a git repository, with files beside or bare."""
    root = Path(folder)
    return (root / ".git").exists() or ((root / "HEAD").is_file() and (root / "objects").is_dir())


def _sizes(root: Path) -> Mapping[str, int]:
    """The files below a folder by path, with their sizes; nothing hidden, no link followed."""
    if not root.is_dir():
        raise HubFailed(f"{root} is no folder where the agent runs")
    found: dict[str, int] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(root / folder))
        except OSError as error:
            raise HubFailed(f"{root / folder} cannot be read: {error.strerror}") from None
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and path.count("/") < MAX_DEPTH:
                    folders.append(path)
                continue
            fact = entry.stat(follow_symlinks=False)
            found[path] = fact.st_size if stat.S_ISREG(fact.st_mode) else LINK
        if len(found) > MAX_ENTRIES:
            raise HubRefused(f"{root} has more than {MAX_ENTRIES:,} files; name a folder in it")
    return found
