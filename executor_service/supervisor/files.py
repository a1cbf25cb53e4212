"""Examines, reads, writes, moves and removes files, as the box's user and inside the box."""

from __future__ import annotations

import errno
import heapq
import os
import stat

from executor_service.supervisor.light import suppress
from executor_service.supervisor.paths import closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generator

    from executor_service.supervisor.paths import Paths

    Steps = Generator[None, None, None]
    """Long work in pieces; closing it stops it."""

_MAX_PAGE_ENTRIES = 1000
_MAX_PAGE_BYTES = 40 * 1024
_MAX_DEPTH = 200
_MAX_SHOWN_CHARACTERS = 500
_READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC
_REAL_FOLDER = _READ_FOLDER | os.O_NOFOLLOW

_CODES = {
    errno.ENOENT: "NOT_FOUND",
    errno.ENOTDIR: "NOT_A_DIRECTORY",
    errno.EISDIR: "IS_A_DIRECTORY",
    errno.ENOTEMPTY: "NOT_EMPTY",
    errno.EEXIST: "ALREADY_EXISTS",
    errno.EACCES: "PERMISSION_DENIED",
    errno.EPERM: "PERMISSION_DENIED",
    errno.EROFS: "READ_ONLY",
    errno.ENOSPC: "NO_SPACE",
    errno.EDQUOT: "NO_SPACE",
    errno.ENAMETOOLONG: "NAME_TOO_LONG",
    errno.ELOOP: "LINK_REFUSED",
    errno.EINVAL: "INVALID_PATH",
    errno.EXDEV: "OTHER_FILE_SYSTEM",
    errno.ENXIO: "NOT_A_FILE",
}


class FileError(Exception):
    """A file operation failed; code is one of a fixed set of words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def file_error(error: OSError) -> FileError:
    """Return the FileError for an error of the kernel."""
    code = _CODES.get(error.errno or 0, "IO_ERROR")
    where = str(error.filename or "")[:_MAX_SHOWN_CHARACTERS]
    return FileError(code, f"{error.strerror or error}: {where}".rstrip(": "))


def describe(status: os.stat_result) -> dict[str, Any]:
    """Return what the executor learns about a file."""
    return {
        "type": file_type(status.st_mode),
        "size": status.st_size,
        "mode": stat.S_IMODE(status.st_mode),
        "mtime_ns": status.st_mtime_ns,
    }


def file_type(mode: int) -> str:
    """Return file, directory, symlink or other."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def stat_path(paths: Paths, message: dict[str, Any]) -> dict[str, Any]:
    """Return type, size, mode and time of path, of the link itself unless follow is set."""
    flags = os.O_PATH | (0 if message.get("follow") else os.O_NOFOLLOW)
    with closing(paths.open(message["path"], flags)) as fd:
        status = os.stat(fd)
        found = describe(status)
        if stat.S_ISLNK(status.st_mode):
            found["target"] = os.readlink("", dir_fd=fd)
    return found


def list_folder(paths: Paths, message: dict[str, Any]) -> dict[str, Any]:
    """Return one page of a folder, sorted by name, beginning after the name `after`."""
    after = message.get("after") or ""
    limit = min(max(1, message.get("limit", _MAX_PAGE_ENTRIES)), _MAX_PAGE_ENTRIES)
    with closing(paths.open(message["path"], _READ_FOLDER)) as fd:
        with os.scandir(fd) as scan:
            names = heapq.nsmallest(limit + 1, (e.name for e in scan if e.name > after))
        entries: list[dict[str, Any]] = []
        room_bytes = _MAX_PAGE_BYTES
        more = len(names) > limit
        for name in names[:limit]:
            room_bytes -= 6 * len(name) + 120
            if room_bytes < 0:
                more = True
                break
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                entries.append({"name": name, **describe(status)})
    return {"entries": entries, "more": more}


def open_or_make_folder(paths: Paths, path: str) -> int:
    """Return a descriptor for the folder path; missing folders are made."""
    missing: list[str] = []
    while True:
        try:
            fd = paths.open_directory(path)
            break
        except FileNotFoundError:
            path, name = os.path.split(path.rstrip("/"))
            if name in ("", ".", ".."):
                raise
            missing.append(name)
            path = path or "."
    while missing:
        name = missing.pop()
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=fd)
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            parent, fd = fd, os.open(name, flags, dir_fd=fd)
        except OSError:
            os.close(fd)
            raise
        os.close(parent)
    return fd


def move_path(paths: Paths, message: dict[str, Any]) -> dict[str, Any]:
    """Rename within one file system; an existing target is replaced only with overwrite."""
    source_folder, source = paths.open_parent(message["source"])
    with closing(source_folder):
        target_folder, target = paths.open_parent(message["target"])
        with closing(target_folder):
            if not message.get("overwrite"):
                require_free(target, target_folder)
            os.rename(source, target, src_dir_fd=source_folder, dst_dir_fd=target_folder)
    return {}


def remove_path(paths: Paths, message: dict[str, Any]) -> Steps:
    """Remove a file, a link, an empty folder, or with recursive a whole tree; yields as it goes.

    It descends through descriptors and never through links, so nothing outside is ever reached.
    """
    folder, name = paths.open_parent(message["path"])
    with closing(folder):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
        elif message.get("recursive"):
            yield from remove_tree(folder, name)
        else:
            os.rmdir(name, dir_fd=folder)


def remove_tree(folder: int, name: str, depth: int = 0) -> Steps:
    """Remove a folder of another folder with its content; yields as it goes."""
    if depth > _MAX_DEPTH:
        raise FileError("TOO_DEEP", f"more than {_MAX_DEPTH} folders inside each other")
    with closing(os.open(name, _REAL_FOLDER, dir_fd=folder)) as fd, os.scandir(fd) as scan:
        for entry in scan:
            if entry.is_dir(follow_symlinks=False):
                yield from remove_tree(fd, entry.name, depth + 1)
            else:
                os.unlink(entry.name, dir_fd=fd)
            yield
    os.rmdir(name, dir_fd=folder)


def require_free(name: str, folder: int) -> None:
    """Raise FileExistsError if the folder has an entry of this name."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
