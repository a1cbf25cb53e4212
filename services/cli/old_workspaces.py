"""The folder `sandboxes` of an older home: which workspaces it has, and what became of them.

Each folder in it is an old workspace. Whether they are taken over is asked once; what has been
decided, and how far it has come, is noted in the home's state.
"""

import json
import os
import posixpath
import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct, field
from msgspec.structs import asdict

from services.home import HomeError, HomePaths, replace_file

FOLDER = "sandboxes"
MAX_BYTES = 1 << 30
"""Of what is in an old workspace, as much as an executor takes at once."""
MAX_ENTRIES = 50_000
MAX_DEPTH = 48
PIECE_BYTES = 32 * 1024

_NOTES = "old_workspaces.json"
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TooLarge(Exception):
    """An old workspace has more than can be taken over; the message says of what."""


class OldWorkspace(Struct, frozen=True):
    """One of them."""

    name: str
    path: Path


class Notes(Struct):
    """What has been decided, and how far it has come."""

    answer: str = ""
    """yes or no; empty while nobody has been asked."""
    begun: dict[str, str] = field(default_factory=dict[str, str])
    """The sessions that old workspaces come to, by their names, from before anything is taken."""
    taken: dict[str, str] = field(default_factory=dict[str, str])
    """Those that they have come to."""


def found(home: HomePaths) -> Sequence[OldWorkspace]:
    """The old workspaces of a home, those without files left out; links are not followed."""
    folder = home.root / FOLDER
    try:
        if folder.is_symlink() or not folder.is_dir():
            return ()
        inner = [path for path in sorted(folder.iterdir()) if not path.is_symlink()]
        return [OldWorkspace(path.name, path) for path in inner if _has_files(path)]
    except OSError as error:
        raise HomeError(f"{error.filename} cannot be read: {error.strerror}") from None


def notes(home: HomePaths) -> Notes:
    """What is noted of a home; nothing where that cannot be read."""
    try:
        kept: dict[str, Any] = json.loads((home.state / _NOTES).read_bytes())
        return Notes(kept["answer"], dict(kept["begun"]), dict(kept["taken"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Notes()


def note(home: HomePaths, kept: Notes) -> None:
    """Note it."""
    replace_file(home.state / _NOTES, json.dumps(asdict(kept), indent=1), 0o600)


def left(home: HomePaths) -> Sequence[OldWorkspace]:
    """Those that are still to be taken over."""
    kept = notes(home)
    return [one for one in found(home) if one.name not in kept.taken]


def pack(workspace: OldWorkspace, target: BinaryIO) -> Sequence[str]:
    """Write the files as an archive; returns what is left out, and why.

    Nothing that is a link is followed, and links that lead out of the folder are left out. Raises
    TooLarge.
    """
    left_out: list[str] = []
    total = count = 0
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path, fact in _entries(workspace.path, ""):
            count += 1
            total += fact.st_size if stat.S_ISREG(fact.st_mode) else 0
            if count > MAX_ENTRIES or path.count("/") >= MAX_DEPTH:
                raise TooLarge(f"more than {MAX_ENTRIES:,} files, or folders too deep")
            if total + 1024 * count > MAX_BYTES:
                raise TooLarge(f"more than {MAX_BYTES >> 30} GiB")
            if why := _add(archive, workspace.path, path, fact):
                left_out.append(f"{workspace.name}/{path}: {why}")
    return left_out


def _add(archive: tarfile.TarFile, root: Path, path: str, fact: os.stat_result) -> str:
    """Add an entry; else why it is left out."""
    entry = tarfile.TarInfo(path)
    entry.mode, entry.mtime = stat.S_IMODE(fact.st_mode) & 0o777, int(fact.st_mtime)
    if stat.S_ISDIR(fact.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, entry.mode | 0o700
        archive.addfile(entry)
    elif stat.S_ISLNK(fact.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, str((root / path).readlink())
        if _leads_out(path, entry.linkname):
            return "it is a link that leads out of the folder"
        archive.addfile(entry)
    elif stat.S_ISREG(fact.st_mode):
        handle = os.open(root / path, _FILE)
        with os.fdopen(handle, "rb") as stream:
            entry.size = os.fstat(handle).st_size
            archive.addfile(entry, stream)
    else:
        return "it is no file"
    return ""


def _leads_out(path: str, target: str) -> bool:
    if target.startswith("/"):
        return True
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return reached == ".." or reached.startswith("../")


def _entries(root: Path, folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(root / folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        path = f"{folder}/{entry.name}" if folder else entry.name
        fact = entry.stat(follow_symlinks=False)
        yield path, fact
        if stat.S_ISDIR(fact.st_mode):
            yield from _entries(root, path)


def _has_files(path: Path) -> bool:
    """Whether there are files in a folder; what nobody may look into has some."""
    try:
        entries = _entries(path, "")
        return path.is_dir() and any(not stat.S_ISDIR(fact.st_mode) for _, fact in entries)
    except PermissionError:
        return True
