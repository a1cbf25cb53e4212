"""Whole folders as tar archives: unpacked beside their place and then put there, or packed.

What is in an archive is believed of nothing. Names are walked through descriptors and never through
a link, links come last, and one entry that is not plain undoes all of it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Any, BinaryIO, Generator, Iterator, NamedTuple

from executor_service.supervisor import files, tar
from executor_service.supervisor.files import FileError
from executor_service.supervisor.paths import MAX_NAME_BYTES, MAX_PATH_BYTES, Paths

MAX_ENTRIES = 100_000
MAX_BYTES = 4 * 1024 * 1024 * 1024
"""Of all files in an archive together."""
MAX_RATIO = 200
"""How many times as large its files may be as an archive that is larger than the allowance."""
_ALLOWANCE_BYTES = 1024 * 1024
_MAX_TARGETS_BYTES = 16 * 1024 * 1024
"""Of all symbolic links together, which wait until everything else is there."""
MAX_DEPTH = 64
_PIECE_BYTES = 256 * 1024
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class _Link(NamedTuple):
    """A symbolic link that is still to be made."""

    parts: list[str]
    target: str


def unpack(
    archive: BinaryIO, folder: int, part: str, size: int, most: int = MAX_ENTRIES
) -> Iterator[None]:
    """Unpack an archive of so many bytes into the new folder `part`; yields as it goes.

    Whoever gets an error, FileError or OSError, has to undo what there is of it.
    """
    os.mkdir(part, 0o700, dir_fd=folder)
    root = os.open(part, _FOLDER, dir_fd=folder)
    try:
        yield from _Unpacking(root, size, most).run(archive)
        os.fchmod(root, 0o755)
    finally:
        os.close(root)


def undo(folder: int, part: str, *, at_once: bool) -> Generator[None, None, None]:
    """Remove what was unpacked; yields as it goes, unless nobody asks it to go on any more."""
    with suppress(FileNotFoundError):
        try:
            for _ in files.remove_tree(folder, part):
                if not at_once:
                    yield
        except GeneratorExit:
            for _ in files.remove_tree(folder, part):
                pass
            raise


class _Unpacking:
    """An archive on its way into a new folder, and what it may still become."""

    def __init__(self, root: int, size: int, most: int) -> None:
        self._root = root
        self._bytes_left = min(MAX_BYTES, max(size, _ALLOWANCE_BYTES) * MAX_RATIO)
        self._entries_left = most
        self._targets_left = _MAX_TARGETS_BYTES
        self._links: list[_Link] = []

    def run(self, archive: BinaryIO) -> Iterator[None]:
        reader = tar.Reader(archive)
        for entry in reader.entries():
            self._spend(entry.size)
            if entry.kind in tar.NAMES:
                pass  # it only says how the next one is called
            elif entry.kind == tar.LINK:
                self._keep_link(_parts(entry.name), entry.target)
            elif entry.kind == tar.FOLDER:
                os.close(self._open_folder(_parts(entry.name)))
            else:
                yield from self._write(_parts(entry.name), entry, reader)
            yield
        for link in self._links:
            fd = self._open_folder(link.parts[:-1])
            try:
                os.symlink(link.target, link.parts[-1], dir_fd=fd)
            finally:
                os.close(fd)
            yield

    def _spend(self, size: int) -> None:
        self._entries_left -= 1
        self._bytes_left -= size
        if self._entries_left < 0 or self._bytes_left < 0:
            raise FileError("TOO_LARGE", "the archive holds more than it may")

    def _keep_link(self, parts: list[str], target: str) -> None:
        self._targets_left -= len(target)
        if self._targets_left < 0:
            raise FileError("TOO_LARGE", "the archive has too many symbolic links")
        self._links.append(_Link(parts, _inside(parts, target)))

    def _write(self, parts: list[str], entry: tar.Entry, reader: tar.Reader) -> Iterator[None]:
        if not parts:
            raise FileError("REFUSED", "a file without a name")
        folder = self._open_folder(parts[:-1])
        try:
            fd = os.open(parts[-1], _NEW_FILE, 0o600, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            for piece in reader.content(entry):
                data = memoryview(piece)
                while data:
                    data = data[os.write(fd, data) :]
                yield
            os.fchmod(fd, entry.mode & 0o777)
            with suppress(OverflowError, OSError, ValueError):  # a time that cannot be stored
                os.utime(fd, (entry.mtime, entry.mtime))
        finally:
            os.close(fd)

    def _open_folder(self, parts: list[str]) -> int:
        """A descriptor for a folder, made with those above it where missing."""
        fd = os.dup(self._root)
        for part in parts:
            try:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=fd)
                    self._spend(0)
                inner = os.open(part, _FOLDER, dir_fd=fd)
            finally:
                os.close(fd)
            fd = inner
        return fd


def _parts(name: str) -> list[str]:
    """The names on the way to an entry; none for the folder itself."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise FileError("REFUSED", f"{name!r} leads out of the archive")
    if len(parts) > MAX_DEPTH:
        raise FileError("TOO_DEEP", f"more than {MAX_DEPTH} folders inside each other")
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in parts):
        raise FileError("NAME_TOO_LONG", f"{name[:64]!r}… is too long")
    return parts


def _inside(parts: list[str], target: str) -> str:
    """Where a symbolic link points, which is in the archive whatever other links there are.

    It may first climb the folders that it is in, which are real, and then only go down.
    """
    depth, descends = len(parts) - 1, False
    for part in target.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            descends = True
        if depth < 0 or target.startswith("/") or (descends and part == ".."):
            raise FileError("REFUSED", f"{'/'.join(parts)!r} points out of the archive")
    if not parts or not target or "\0" in target or len(target) > MAX_PATH_BYTES:
        raise FileError("REFUSED", "a symbolic link without a name, or with no real target")
    return target


class Packing:
    """The bytes of a tar archive of a folder, which is read as they are asked for."""

    def __init__(self, paths: Paths, message: dict[str, Any]) -> None:
        self._fd = paths.open(files.text_field(message, "path"), _FOLDER & ~os.O_NOFOLLOW)
        self.status = os.fstat(self._fd)
        self._entries = 0
        self._bytes = 0
        self._pieces = self._archive()
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Up to so many of the next bytes; none at the end."""
        while len(self._rest) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest += piece
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def close(self) -> None:
        """Let go of the folder."""
        self._pieces.close()
        os.close(self._fd)

    def _archive(self) -> Generator[bytes, None, None]:
        yield from self._folder(self._fd, "")
        yield bytes(2 * tar.BLOCK_BYTES)  # says that it is whole

    def _folder(self, folder: int, prefix: str, depth: int = 1) -> Iterator[bytes]:
        if depth > MAX_DEPTH:
            raise FileError("TOO_DEEP", f"more than {MAX_DEPTH} folders inside each other")
        with os.scandir(folder) as scan:
            names = sorted(entry.name for entry in scan)
        for name in names:
            with suppress(FileNotFoundError):  # it went meanwhile
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                self._count(0)
                yield from self._entry(folder, name, prefix + name, status, depth)

    def _entry(
        self, folder: int, name: str, path: str, status: os.stat_result, depth: int
    ) -> Iterator[bytes]:
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(name, dir_fd=folder)
            yield _header(path, tar.LINK, status, target=target)
        elif stat.S_ISDIR(status.st_mode):
            fd = os.open(name, _FOLDER, dir_fd=folder)
            try:
                yield _header(path + "/", tar.FOLDER, status)
                yield from self._folder(fd, path + "/", depth + 1)
            finally:
                os.close(fd)
        elif stat.S_ISREG(status.st_mode):
            fd = os.open(name, _READ_FILE, dir_fd=folder)
            try:
                yield from self._file(fd, path)
            finally:
                os.close(fd)

    def _file(self, fd: int, path: str) -> Iterator[bytes]:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return  # it was swapped meanwhile
        self._count(status.st_size)
        yield _header(path, tar.FILE, status, status.st_size)
        left = status.st_size
        while left:
            data = os.read(fd, min(left, _PIECE_BYTES))
            if not data:
                raise FileError("CHANGED", f"{path} became shorter while it was read")
            left -= len(data)
            yield data
        yield tar.padding(status.st_size)

    def _count(self, size: int) -> None:
        self._entries += not size
        self._bytes += size
        if self._entries > MAX_ENTRIES or self._bytes > MAX_BYTES:
            raise FileError("TOO_LARGE", "the folder holds more than an archive may")


def _header(
    path: str, kind: bytes, status: os.stat_result, size: int = 0, target: str = ""
) -> bytes:
    mode = stat.S_IMODE(status.st_mode) & 0o777
    return tar.header(tar.Entry(kind, path, size, mode, int(status.st_mtime), target))
