"""The folder that is taken as a home, and the one that a home or skills are written into."""

import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from hermes.agent.v1 import home_pb2
from services.cli.jobs.files import zone_of
from services.errors import FailedPrecondition, InvalidArgument
from services.home.files import (
    PLUGINS,
    PROFILES,
    HomeFile,
    check_path,
    contents,
    obstacle,
    profiles_of,
)
from services.home.paths import DEFAULT_PROFILE, HomePaths
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
    left_out: Sequence[home_pb2.HomeFileLeftOut]

    @classmethod
    def find(cls, root: Path, own: str, without: Sequence[str]) -> "Source":
        """What a folder has; InvalidArgument where it is no home."""
        if not any((root / name).exists() for name in _SIGNS):
            has = ", ".join(_SIGNS)
            raise InvalidArgument(f"{root} is not a home: it has none of {has}")
        home = HomePaths(root, root, own)
        found = [contents(home, profile) for profile in profiles_of(home)]
        files = [
            file
            for each in found
            for file in each.files
            if not _is_named(located(file.profile, own, file.path), without)
        ]
        left_out = [
            home_pb2.HomeFileLeftOut(profile=one.profile, path=one.path, reason=one.why)
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
            {part[2] for part in parts if part[:2] == PLUGINS.split("/") and len(part) > 3}
        )

    def place(self, file: HomeFile) -> Path:
        """Where a file is."""
        return self.root / located(file.profile, self.own, file.path)

    def time_zone(self, profile: str) -> str:
        """The zone that a profile's settings name, or those of the home; empty where none do."""
        return zone_of(self.root / located(profile, self.own, "")) or zone_of(self.root)

    def read(self, file: HomeFile) -> Iterator[bytes]:
        """A file in pieces; InvalidArgument where it cannot be read."""
        try:
            with self.place(file).open("rb") as stream:
                while piece := stream.read(PIECE_BYTES):
                    yield piece
        except OSError as error:
            raise InvalidArgument(f"{self.place(file)} cannot be read: {error.strerror}") from None


class Target:
    """Collects files in a folder beside, and puts them in their places when all are there."""

    def __init__(
        self, folder: Path, own: str = DEFAULT_PROFILE, without: Sequence[str] = ()
    ) -> None:
        """Take the folder, the profile whose home it becomes, and what is left out."""
        self.folder = folder.expanduser().resolve()
        self.modes: dict[str, int] = {}
        """The permissions of each file, by its place in the folder."""
        self._own = own
        self._without = without
        self._beside = self.folder.with_name(f".{self.folder.name}.{new_id('exp')}")
        self._file: Path | None = None

    def check(self, or_else: str = "") -> None:
        """Refuse a folder that is not empty; the message ends with what can be done `or_else`."""
        if self.folder.exists() and not self.folder.is_dir():
            raise FailedPrecondition(f"{self.folder} is not a folder")
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise FailedPrecondition(f"{self.folder} is not empty; choose another folder{or_else}")

    @contextmanager
    def written(self, mode: int = 0o700) -> Generator[None]:
        """Write files inside; they are in their places after it, all or none, in such folders."""
        try:
            self._beside.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise FailedPrecondition(f"{self._beside}: {error.strerror}") from None
        try:
            yield
            self._put_in_place(mode)
        finally:
            shutil.rmtree(self._beside, ignore_errors=True)

    def begin(self, profile: str, path: str, mode: int) -> None:
        """Begin a file; the pieces that are written next are its content."""
        check_path(profile, path)
        place = located(profile, self._own, path)
        self._file = None if _is_named(place, self._without) else self._beside / place
        if self._file is not None:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file.touch(0o600, exist_ok=False)
            self.modes[place] = mode & 0o777

    def write(self, data: bytes) -> None:
        """Add to the file that was begun last."""
        if self._file is not None:
            with self._file.open("ab") as stream:
                stream.write(data)

    def _put_in_place(self, folder_mode: int) -> None:
        for path in self.modes:
            if problem := obstacle(self.folder, path):
                raise FailedPrecondition(f"cannot write {path} in {self.folder}: {problem}")
        self.folder.mkdir(mode=folder_mode, exist_ok=True)
        for path, mode in self.modes.items():
            target = self.folder / path
            target.parent.mkdir(mode=folder_mode, parents=True, exist_ok=True)
            (self._beside / path).chmod(mode)
            (self._beside / path).replace(target)


def located(profile: str, own: str, path: str) -> str:
    """Where a profile's file stands in a folder that is the home of the profile `own`."""
    return path if profile == own else f"{PROFILES}/{profile}/{path}"


def _is_named(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern means a path, or a folder that it is in."""
    given = [pattern.rstrip("/") for pattern in patterns]
    return any(path == one or path.startswith(f"{one}/") or fnmatchcase(path, one) for one in given)
