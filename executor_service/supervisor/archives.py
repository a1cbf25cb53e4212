"""Unpacks tar archives into whole folders: first beside the target, then renamed.

Nothing in an archive is trusted. Python's tarfile reads the headers, from a file object that limits
their size. Names are opened through descriptors and never through links, symbolic links are made
last, and one entry of a refused kind undoes everything.
"""

from __future__ import annotations

import os
import stat

from executor_service.supervisor import files
from executor_service.supervisor.files import FileError
from executor_service.supervisor.light import suppress
from executor_service.supervisor.paths import MAX_NAME_BYTES, MAX_PATH_BYTES, closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tarfile import TarInfo
    from typing import Any, BinaryIO, Generator, Iterator

MAX_ENTRIES = 100_000
"""Files, folders and links of an archive."""
MAX_DEPTH = 64
_MAX_HEADER_BYTES = 64 * 1024
_MAX_ENTRY_BYTES = 16 * _MAX_HEADER_BYTES
"""Limit for all headers of an entry, including lists of holes."""
_BLOCK_BYTES = 512
_PIECE_BYTES = 256 * 1024
_MAX_TARGETS_BYTES = 16 * 1024 * 1024
"""Limit for all symbolic links, which are kept until everything else is there."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack(archive: BinaryIO, folder: int, part: str, most: int = MAX_ENTRIES) -> Iterator[None]:
    """Unpack an archive into the new folder `part`; yields as it goes.

    After FileError or OSError, the caller must `undo` it.
    """
    os.mkdir(part, 0o700, dir_fd=folder)
    with closing(os.open(part, _FOLDER, dir_fd=folder)) as root:
        yield from _Unpacking(root, archive, most).run()
        os.fchmod(root, 0o755)


def undo(folder: int, part: str, *, at_once: bool) -> Generator[None, None, None]:
    """Remove what was unpacked; yields as it goes unless at_once; closing it finishes it."""
    with suppress(FileNotFoundError):
        try:
            for _ in files.remove_tree(folder, part):
                if not at_once:
                    yield
        except GeneratorExit:
            for _ in files.remove_tree(folder, part):
                pass
            raise


class _Headers:
    """The archive as tarfile sees it, with a limit on the size of headers."""

    def __init__(self, archive: BinaryIO) -> None:
        self._archive = archive
        self._left = _MAX_ENTRY_BYTES
        self.seek, self.tell = archive.seek, archive.tell

    def next_entry(self) -> None:
        """Start counting the headers of the next entry."""
        self._left = _MAX_ENTRY_BYTES

    def read(self, size: int) -> bytes:
        """Read for tarfile, which would load a header of any announced size into memory."""
        self._left -= size
        if size > _MAX_HEADER_BYTES or self._left < 0:
            raise FileError("TOO_LARGE", "the archive has a header that is too large")
        return self._archive.read(size)


def _entries(archive: BinaryIO) -> Iterator[TarInfo]:
    """Yield each entry; FileError unless the archive is whole."""
    import tarfile

    try:
        headers: Any = _Headers(archive)
        reader: Any = tarfile.TarFile(fileobj=headers, errors="surrogateescape")
        # tarfile takes a damaged header for the end.
        for info in iter(reader.next, None):
            reader.members = []
            headers.next_entry()
            # Attributes of the whole archive may give an entry an impossible size.
            if info.size < 0 or (info.isfile() and info.offset_data + info.size > reader.offset):
                raise FileError("NOT_AN_ARCHIVE", f"{info.name!r} has a size that cannot be")
            yield info
        archive.seek(reader.offset)
        if archive.read(_BLOCK_BYTES) != bytes(_BLOCK_BYTES):
            raise FileError("NOT_AN_ARCHIVE", "it is damaged, or ends in the middle")
    except (tarfile.TarError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        raise FileError("NOT_AN_ARCHIVE", f"it is no tar archive: {error}") from None


class _Unpacking:
    def __init__(self, root: int, archive: BinaryIO, most: int) -> None:
        self._root = root
        self._archive = archive
        self._entries_left = most
        self._targets_left = _MAX_TARGETS_BYTES
        self._links: list[tuple[list[str], str]] = []

    def run(self) -> Iterator[None]:
        for entry in _entries(self._archive):
            self._count()
            parts = _parts(entry.name)
            if entry.issym():
                self._keep_link(parts, entry.linkname)
            elif entry.isdir():
                os.close(self._open_folder(parts))
            else:
                yield from self._write(parts, entry)
            yield
        for parts, target in self._links:
            with closing(self._open_folder(parts[:-1])) as fd:
                os.symlink(target, parts[-1], dir_fd=fd)
            yield

    def _count(self) -> None:
        self._entries_left -= 1
        if self._entries_left < 0:
            raise FileError("TOO_LARGE", "the archive holds more than it may")

    def _keep_link(self, parts: list[str], target: str) -> None:
        self._targets_left -= len(target)
        if self._targets_left < 0:
            raise FileError("TOO_LARGE", "the archive has too many symbolic links")
        self._links.append((parts, _inside(parts, target)))

    def _write(self, parts: list[str], entry: TarInfo) -> Iterator[None]:
        if not parts or not entry.isfile() or _is_sparse(entry):
            raise FileError("REFUSED", f"{entry.name!r} is no plain file, folder or symbolic link")
        if entry.mode & (stat.S_ISUID | stat.S_ISGID):
            raise FileError("REFUSED", f"{entry.name!r} would run as somebody else")
        with closing(self._open_folder(parts[:-1])) as folder:
            fd = os.open(parts[-1], _NEW_FILE, 0o600, dir_fd=folder)
        with closing(fd):
            yield from self._copy(entry, fd)
            os.fchmod(fd, entry.mode & 0o777)
            with suppress(OverflowError, OSError, ValueError):  # a time that cannot be stored
                os.utime(fd, (entry.mtime, entry.mtime))

    def _copy(self, entry: TarInfo, fd: int) -> Iterator[None]:
        self._archive.seek(entry.offset_data)
        left = entry.size
        while left:
            data = memoryview(self._archive.read(min(left, _PIECE_BYTES)))
            if not data:
                raise FileError("NOT_AN_ARCHIVE", "it ends in the middle")
            left -= len(data)
            while data:
                data = data[os.write(fd, data) :]
            yield

    def _open_folder(self, parts: list[str]) -> int:
        fd = os.dup(self._root)
        for part in parts:
            with closing(fd):
                with suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=fd)
                    self._count()
                fd = os.open(part, _FOLDER, dir_fd=fd)
        return fd


def _is_sparse(entry: TarInfo) -> bool:
    """Whether the file may be larger than its data in the archive."""
    return entry.issparse() or any(key.startswith("GNU.sparse") for key in entry.pax_headers)


def _parts(name: str) -> list[str]:
    """Return the names on the way to an entry; none for the root."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise FileError("REFUSED", f"{name!r} leads out of the archive")
    if len(parts) > MAX_DEPTH:
        raise FileError("TOO_DEEP", f"more than {MAX_DEPTH} folders inside each other")
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in parts):
        raise FileError("NAME_TOO_LONG", f"{name[:64]!r}… is too long")
    return parts


def _inside(parts: list[str], target: str) -> str:
    """Return a symbolic link's target; FileError if it may lead out of the archive.

    It may first climb the link's own folders, which are real, and then only descend.
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
