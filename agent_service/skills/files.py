"""The files of one profile's `skills/`, wherever they are kept.

Paths are relative, with `/`, and mean what they say: no implementation follows a link.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct


class FileRefused(Exception):
    """A file cannot be read or written as it is; the message says why."""


class LibraryBusy(FileRefused):
    """Somebody else is changing the files; the same call may succeed later."""


class FileFact(Struct, frozen=True):
    """By what a file is known to have changed."""

    size_bytes: int
    modified_at_ns: int


class SkillFiles(Protocol):
    """Files and folders; FileRefused from every method."""

    async def tree(self) -> Mapping[str, FileFact]:
        """Every regular file down to `category/skill/references/file`, by path."""
        ...

    async def read(self, path: str, max_bytes: int) -> bytes | None:
        """The whole file, or None when there is none; refused when it is longer."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace or make the file as a whole, and the folders above it."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file, and its folder when that is empty then; nothing where there is none."""
        ...

    async def move(self, source: str, target: str) -> None:
        """Give a folder another place, where nothing may be yet."""
        ...

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Nobody else changes these files until the context is left."""
        ...
