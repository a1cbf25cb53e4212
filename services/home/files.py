"""The user's files of a home, which move with it.

Databases, sockets, workspaces, our own log and lock files stay behind; all other files move.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from services.errors import InvalidArgument
from services.home.paths import DEFAULT_PROFILE, HomeError, HomePaths, is_profile_name

PLUGINS = "plugins/memory"
"""Memory providers of other programs, which are kept and never run."""
PROFILES = "profiles"
MAX_PATH_BYTES = 1024
MAX_PARTS = 32
MAX_FILES = 200_000

_OURS = re.compile(
    r"(state|run|workspaces)(/.*)?|logs/hermes\.log(\.\d+)?|cron/\.?jobs\.json\.taken(\..*)?",
    re.DOTALL,
)
_LOCKS = re.compile(
    r"memories/[^/]*\.lock|skills/\.usage\.json\.lock|auth\.lock|logs/curator/\.lock"
)
_SECRETS = re.compile(r"\.env|auth\.json|whatsapp/session/.*", re.DOTALL)
_AT_THE_TOP = ("config.yaml", ".env", "auth.json", "SOUL.md", "skills", "cron", "hooks", "memories")
_MAY_BE_LINKS = frozenset({*_AT_THE_TOP, "memories/MEMORY.md", "memories/USER.md"})
"""Users may link these, for example to dotfiles; other links could lead foreign skills anywhere."""


class HomeFile(Struct, frozen=True):
    """A file of a profile, by its path in the profile's folder."""

    profile: str
    path: str
    size_bytes: int
    mode: int


class SkippedFile(Struct, frozen=True):
    """A file that does not move, and why."""

    profile: str
    path: str
    why: str


class Contents(Struct):
    """The files of a home."""

    files: list[HomeFile] = field(default_factory=list[HomeFile])
    left_out: list[SkippedFile] = field(default_factory=list[SkippedFile])


def is_secret(path: str) -> bool:
    """Return whether a file of a profile holds keys."""
    return _SECRETS.fullmatch(path) is not None


def check_path(profile: str, path: str) -> None:
    """Reject a path that no file of a profile can have."""
    parts = path.split("/")
    in_home = profile == DEFAULT_PROFILE and parts[0] == PROFILES
    if (
        any(part in ("", ".", "..") for part in parts)
        or "\0" in path
        or len(parts) > MAX_PARTS
        or len(path.encode()) > MAX_PATH_BYTES
        or in_home
        or _OURS.fullmatch(path)
    ):
        wanted = "the path of a file in the profile's folder that services do not keep themselves"
        raise InvalidArgument(f"{path!r} cannot be moved", fields={"path": wanted})


def profiles_of(home: HomePaths) -> list[str]:
    """Return the home's own profile, then those with a folder in it."""
    folder = home.root / PROFILES
    if home.name != DEFAULT_PROFILE:
        return [home.name]
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [DEFAULT_PROFILE, *(name for name in names if _is_profile(home, name))]


def contents(home: HomePaths, profile: str) -> Contents:
    """Return the files that move with a profile; HomeError if something cannot be read."""
    found, root = Contents(), home.profile(profile).root
    try:
        for path, fact in _walk(root, "", profile == DEFAULT_PROFILE):
            _sort(found, profile, path, fact)
    except OSError as error:
        raise HomeError(f"{error.filename} cannot be read: {error.strerror}") from None
    if profile == DEFAULT_PROFILE:
        found.left_out += _no_profiles(home)
    found.files.sort(key=lambda file: file.path)
    return found


def _sort(found: Contents, profile: str, path: str, fact: os.stat_result) -> None:
    if stat.S_ISLNK(fact.st_mode):
        found.left_out.append(
            SkippedFile(profile, _display(path), "it is a link, which is not followed")
        )
    elif not stat.S_ISREG(fact.st_mode):
        found.left_out.append(SkippedFile(profile, _display(path), "it is no file"))
    elif _display(path) != path:
        found.left_out.append(SkippedFile(profile, _display(path), "its name is not UTF-8"))
    elif len(path.encode()) > MAX_PATH_BYTES or path.count("/") >= MAX_PARTS:
        found.left_out.append(SkippedFile(profile, path, "its path is too long"))
    elif len(found.files) >= MAX_FILES:
        raise HomeError(f"a profile with more than {MAX_FILES:,} files cannot be moved")
    else:
        found.files.append(HomeFile(profile, path, fact.st_size, stat.S_IMODE(fact.st_mode)))


def _walk(root: Path, folder: str, is_home: bool) -> Iterator[tuple[str, os.stat_result]]:
    if not folder and not root.is_dir():
        return
    with os.scandir(root / folder) as entries:
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if _OURS.fullmatch(path) or (is_home and path == PROFILES):
                continue
            try:
                fact = _stat(root / path, path)
            except FileNotFoundError:
                continue  # deleted since it was listed
            if stat.S_ISDIR(fact.st_mode):
                yield from _walk(root, path, is_home)
            elif not (_LOCKS.fullmatch(path) and fact.st_size == 0):
                yield path, fact


def obstacle(root: Path, path: str) -> str:
    """Return why a file cannot be put at a path below a profile's folder; empty if it can."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        place = "/".join(parts[:count])
        try:
            fact = _stat(root / place, place)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{place}: {error.strerror}"
        wanted = stat.S_ISREG if count == len(parts) else stat.S_ISDIR
        if not wanted(fact.st_mode):
            return f"{place} is something else, such as a folder or a link"
    return ""


def _stat(place: Path, path: str) -> os.stat_result:
    if path in _MAY_BE_LINKS:
        try:
            return place.stat()
        except FileNotFoundError:
            pass  # a dangling link is a link
    return place.lstat()


def _no_profiles(home: HomePaths) -> Iterator[SkippedFile]:
    folder = home.root / PROFILES
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if not _is_profile(home, path.name):
                shown = _display(f"{PROFILES}/{path.name}")
                yield SkippedFile(DEFAULT_PROFILE, shown, "it is no folder of a profile")


def _is_profile(home: HomePaths, name: str) -> bool:
    # The profile `default` is the home itself.
    return (
        name != DEFAULT_PROFILE and is_profile_name(name) and (home.root / PROFILES / name).is_dir()
    )


def _display(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")


def memory_providers(root: Path) -> Sequence[str]:
    """Return the names of the memory providers in a home."""
    folder = root / PLUGINS
    try:
        return sorted(path.name for path in folder.iterdir() if path.is_dir())
    except OSError:
        return ()


def explain_providers(names: Sequence[str]) -> str:
    """Explain what Hermes does with memory providers of other programs."""
    return (
        f"{', '.join(names)} in {PLUGINS} is kept as it is and not loaded: Hermes runs no memory "
        "providers of others, and remembers in its own files"
    )
