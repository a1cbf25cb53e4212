"""A folder that is taken as a home."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from services.errors import InvalidArgument
from services.home import HomePaths
from services.home_files import PROFILES, HomeFile, contents, profiles_of
from services.home_jobs import zone_of
from services.home_plugins import FOLDER

PIECE_BYTES = 256 * 1024
_SIGNS = ("config.yaml", "SOUL.md", "memories", "skills", "cron", "sessions", PROFILES)


class Source(Struct, frozen=True):
    """What is to be taken."""

    root: Path
    own: str
    """The profile whose home the folder becomes."""
    files: Sequence[HomeFile]
    """By the profile that they come to."""
    left_out: Sequence[dict[str, str]]

    def has(self, path: str) -> bool:
        """Whether there is such a file in any profile."""
        return any(file.path == path for file in self.files)

    def memory_providers(self) -> Sequence[str]:
        """The memory providers in it of others, which are kept and not loaded."""
        parts = (file.path.split("/") for file in self.files)
        return sorted(
            {part[2] for part in parts if part[:2] == FOLDER.split("/") and len(part) > 3}
        )

    def time_zone(self, profile: str) -> str:
        """The zone that a profile's settings name, or those of the home; empty where none do."""
        own = self.root / located(profile, self.own, "")
        return zone_of(own) or zone_of(self.root)

    async def read(self, file: HomeFile) -> AsyncGenerator[bytes]:
        """A file in pieces; InvalidArgument where it cannot be read."""
        path = self.root / located(file.profile, self.own, file.path)
        try:
            stream = await asyncio.to_thread(path.open, "rb")
            try:
                while piece := await asyncio.to_thread(stream.read, PIECE_BYTES):
                    yield piece
            finally:
                await asyncio.to_thread(stream.close)
        except OSError as error:
            raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None


def find(root: Path, own: str, without: Sequence[str]) -> Source:
    """What a folder has; InvalidArgument where it is no home."""
    if not any((root / name).exists() for name in _SIGNS):
        has = ", ".join(_SIGNS)
        raise InvalidArgument(f"{root} does not look like a home: it has none of {has}")
    home = HomePaths(root, root, own)
    files: list[HomeFile] = []
    left_out: list[dict[str, str]] = []
    for profile in profiles_of(home):
        found = contents(home, profile)
        files += found.files
        left_out += [
            {"profile": profile, "path": one.path, "reason": one.why} for one in found.left_out
        ]
    wanted = [one for one in files if not is_named(located(one.profile, own, one.path), without)]
    return Source(root, own, wanted, left_out)


def located(profile: str, own: str, path: str) -> str:
    """Where a profile's file stands in a folder that is the home of the profile `own`."""
    return path if profile == own else f"{PROFILES}/{profile}/{path}"


def is_named(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern means a path, or a folder that it is in."""
    given = [pattern.rstrip("/") for pattern in patterns]
    return any(path == one or path.startswith(f"{one}/") or fnmatchcase(path, one) for one in given)
