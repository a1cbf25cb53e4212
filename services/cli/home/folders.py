"""The folder that is taken as a home, and the one that a home is written into."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from services.errors import FailedPrecondition, InvalidArgument
from services.home import HomePaths
from services.home_files import PROFILES, HomeFile, check_path, contents, obstacle, profiles_of
from services.home_jobs import zone_of
from services.home_plugins import FOLDER
from services.ids import new_id

PIECE_BYTES = 256 * 1024
_SIGNS = ("config.yaml", "SOUL.md", "memories", "skills", "cron", "sessions", PROFILES)


class Source(Struct, frozen=True):
    """What is taken of a folder."""

    root: Path
    own: str
    """The profile whose home the folder becomes."""
    files: Sequence[HomeFile]
    """By the profile that they come to."""
    left_out: Sequence[dict[str, str]]

    @classmethod
    def find(cls, root: Path, own: str, without: Sequence[str]) -> "Source":
        """What a folder has; InvalidArgument where it is no home."""
        if not any((root / name).exists() for name in _SIGNS):
            has = ", ".join(_SIGNS)
            raise InvalidArgument(f"{root} does not look like a home: it has none of {has}")
        home = HomePaths(root, root, own)
        found = [contents(home, profile) for profile in profiles_of(home)]
        files = [
            file
            for each in found
            for file in each.files
            if not _is_named(located(file.profile, own, file.path), without)
        ]
        left_out = [
            {"profile": one.profile, "path": one.path, "reason": one.why}
            for each in found
            for one in each.left_out
        ]
        return cls(root, own, files, left_out)

    def has(self, path: str) -> bool:
        """Whether there is such a file in any profile."""
        return any(file.path == path for file in self.files)

    def memory_providers(self) -> Sequence[str]:
        """The memory providers of others in it, which are kept and not loaded."""
        parts = (file.path.split("/") for file in self.files)
        return sorted(
            {part[2] for part in parts if part[:2] == FOLDER.split("/") and len(part) > 3}
        )

    def place(self, file: HomeFile) -> Path:
        """Where a file is."""
        return self.root / located(file.profile, self.own, file.path)

    def time_zone(self, profile: str) -> str:
        """The zone that a profile's settings name, or those of the home; empty where none do."""
        return zone_of(self.root / located(profile, self.own, "")) or zone_of(self.root)

    async def read(self, file: HomeFile) -> AsyncGenerator[bytes]:
        """A file in pieces; InvalidArgument where it cannot be read."""
        path = self.place(file)
        try:
            stream = await asyncio.to_thread(path.open, "rb")
            try:
                while piece := await asyncio.to_thread(stream.read, PIECE_BYTES):
                    yield piece
            finally:
                await asyncio.to_thread(stream.close)
        except OSError as error:
            raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None


class Target:
    """Collects files in a folder beside, and puts them in their places when all are there.

    Its methods block.
    """

    def __init__(self, folder: Path, own: str, without: Sequence[str], *, overwrite: bool) -> None:
        """Refuse a folder that is not empty, unless it may be overwritten."""
        if folder.exists() and not folder.is_dir():
            raise FailedPrecondition(f"{folder} is no folder")
        if not overwrite and folder.is_dir() and any(folder.iterdir()):
            raise FailedPrecondition(
                f"{folder} is not empty; choose another folder, or say --overwrite"
            )
        self.files: list[str] = []
        self._folder = folder
        self._own = own
        self._without = without
        self._beside = folder.with_name(f".{folder.name}.{new_id('exp')}")
        self._stream: BinaryIO | None = None

    def open(self) -> None:
        """Make the folder beside."""
        try:
            self._beside.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise FailedPrecondition(f"{self._beside}: {error.strerror}") from None

    def begin(self, profile: str, path: str, mode: int) -> None:
        """Begin a file; the pieces that are written next are its content."""
        self._end_file()
        check_path(profile, path)
        place = located(profile, self._own, path)
        if _is_named(place, self._without):
            return
        target = self._beside / place
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._stream = target.open("xb")
        target.chmod(mode & 0o777)
        self.files.append(place)

    def write(self, data: bytes) -> None:
        """Add to the file that was begun last."""
        if self._stream is not None:
            self._stream.write(data)

    def finish(self) -> None:
        """Put all files in their places."""
        self._end_file()
        if not self._folder.exists() or not any(self._folder.iterdir()):
            self._beside.replace(self._folder)
            return
        for path in self.files:
            if problem := obstacle(self._folder, path):
                raise FailedPrecondition(f"{path} has no place in {self._folder}: {problem}")
        for path in self.files:
            (self._folder / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._beside / path).replace(self._folder / path)

    def close(self) -> None:
        """Remove the folder beside."""
        self._end_file()
        shutil.rmtree(self._beside, ignore_errors=True)

    def _end_file(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def located(profile: str, own: str, path: str) -> str:
    """Where a profile's file stands in a folder that is the home of the profile `own`."""
    return path if profile == own else f"{PROFILES}/{profile}/{path}"


def _is_named(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern means a path, or a folder that it is in."""
    given = [pattern.rstrip("/") for pattern in patterns]
    return any(path == one or path.startswith(f"{one}/") or fnmatchcase(path, one) for one in given)
