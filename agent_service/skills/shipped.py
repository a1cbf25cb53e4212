"""The skills that come with Hermes, as the package has them."""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from agent_service.skills.names import DOCUMENT, SUPPORT_FOLDERS, support_file

FOLDER = "bundled"


class Shipped(Struct, frozen=True):
    """One skill of the package."""

    name: str
    category: str
    files: Mapping[str, bytes]
    """By path in its folder."""

    @property
    def folder(self) -> str:
        """Its folder in a library."""
        return f"{self.category}/{self.name}"

    @property
    def digest(self) -> str:
        """By which it is known to be as it was shipped."""
        return digest(self.files)


class Package:
    """What is in the package, read when it is first asked for."""

    def __init__(self, root: Path | None = None) -> None:
        """Take the package's own folder, or another one with the same layout."""
        self._root = root
        self._skills: Sequence[Shipped] | None = None

    async def skills(self) -> Sequence[Shipped]:
        """Every skill, by category and name."""
        if self._skills is None:
            self._skills = await asyncio.to_thread(self._read)
        return self._skills

    def _read(self) -> Sequence[Shipped]:
        root = self._root or Path(str(files("agent_service.skills"))) / FOLDER
        documents = sorted(root.glob(f"*/*/{DOCUMENT}"))
        return tuple(
            Shipped(folder.name, folder.parent.name, dict(_contents(folder)))
            for folder in (document.parent for document in documents)
        )


def digest(contents: Mapping[str, bytes]) -> str:
    """The digest of a folder's files: of their paths and of what they hold."""
    whole = hashlib.sha256()
    for path, data in sorted(contents.items()):
        whole.update(f"{path}\0{len(data)}\0".encode())
        whole.update(data)
    return whole.hexdigest()


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    yield DOCUMENT, (folder / DOCUMENT).read_bytes()
    for kind in SUPPORT_FOLDERS:
        for path in sorted((folder / kind).glob("*")):
            name = f"{kind}/{path.name}"
            if path.is_file() and support_file(name):
                yield name, path.read_bytes()
