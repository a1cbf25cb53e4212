"""The source folder of an import, and the target folder of an export."""

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
    """The importable content of a folder."""

    root: Path
    own: str
    """The profile whose home the folder becomes."""
    files: Sequence[HomeFile]
    """With the profiles that they are for."""
    left_out: Sequence[home_pb2.HomeFileLeftOut]

    @classmethod
    def find(cls, root: Path, own: str, without: Sequence[str]) -> "Source":
        """Read a folder; InvalidArgument if it is no home."""
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
        return any(file.path == path for file in self.files)

    def memory_providers(self) -> Sequence[str]:
        """The memory providers of other programs in it, which are kept and not loaded."""
        parts = (file.path.split("/") for file in self.files)
        return sorted(
            {part[2] for part in parts if part[:2] == PLUGINS.split("/") and len(part) > 3}
        )

    def place(self, file: HomeFile) -> Path:
        return self.root / located(file.profile, self.own, file.path)

    def time_zone(self, profile: str) -> str:
        """Return the zone in the settings of a profile or else the home; empty if not set."""
        return zone_of(self.root / located(profile, self.own, "")) or zone_of(self.root)

    def read(self, file: HomeFile) -> Iterator[bytes]:
        """Yield a file in pieces; InvalidArgument if it cannot be read."""
        try:
            with self.place(file).open("rb") as stream:
                while piece := stream.read(PIECE_BYTES):
                    yield piece
        except OSError as error:
            raise InvalidArgument(f"{self.place(file)} cannot be read: {error.strerror}") from None


class Target:
    """Collects files in a temporary folder beside the target, and moves them when complete."""

    def __init__(
        self, folder: Path, own: str = DEFAULT_PROFILE, without: Sequence[str] = ()
    ) -> None:
        self.folder = folder.expanduser().resolve()
        self.modes: dict[str, int] = {}
        """Permissions by path in the folder."""
        self._own = own
        self._without = without
        self._beside = self.folder.with_name(f".{self.folder.name}.{new_id('exp')}")
        self._file: Path | None = None

    def check(self, or_else: str = "") -> None:
        """Refuse a non-empty folder; the message ends with the alternative `or_else`."""
        if self.folder.exists() and not self.folder.is_dir():
            raise FailedPrecondition(f"{self.folder} is not a folder")
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise FailedPrecondition(f"{self.folder} is not empty; choose another folder{or_else}")

    @contextmanager
    def replace_files(self, mode: int = 0o700) -> Generator[None]:
        """Write files inside; afterwards all or none are in place."""
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
        """Begin a file; the next writes are its content."""
        check_path(profile, path)
        place = located(profile, self._own, path)
        self._file = None if _is_named(place, self._without) else self._beside / place
        if self._file is not None:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file.touch(0o600, exist_ok=False)
            self.modes[place] = mode & 0o777

    def write(self, data: bytes) -> None:
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
    """Return the path of a profile's file in a folder that is the home of the profile `own`."""
    return path if profile == own else f"{PROFILES}/{profile}/{path}"


def _is_named(path: str, patterns: Sequence[str]) -> bool:
    given = [pattern.rstrip("/") for pattern in patterns]
    return any(path == one or path.startswith(f"{one}/") or fnmatchcase(path, one) for one in given)
