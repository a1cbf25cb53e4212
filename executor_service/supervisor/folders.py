"""Copies, measures, lists and removes whole workspaces that are folders.

    supervisor --folders REQUEST    handle the request, which is JSON, and answer in one line

This process may be killed at any time. A copy appears whole, by rename, or not at all; the next
removal finishes one that was interrupted.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
import threading
from contextlib import suppress

from executor_service.supervisor.files import FileError
from executor_service.supervisor.keeper import users_of
from executor_service.supervisor.paths import closing
from executor_service.supervisor.syscalls import die_with_parent
from executor_service.supervisor.trees import (
    BLOCK_BYTES,
    BYTES_OF_AN_ENTRY,
    MAX_DEPTH,
    NAME,
    PART,
    READ_FOLDER,
    clear,
    entries,
    list_workspaces,
    measure,
    remove,
    remove_empty,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE_BYTES = 16 * 1024 * 1024
_MAX_LINKS = 1_000_000
_CLONE = 0x40049409
"""The ioctl FICLONE: both files share their blocks until one is written to."""
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINK = frozenset({errno.ENAMETOOLONG, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP})
_CHANGED = frozenset({errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""Errors of a name that was given to something else meanwhile."""
ANSWER = "hermes-folders:"
"""Prefix of the answer's line, because a login shell may print something before it."""
_PATIENCE = 10
"""Niceness: commands in sandboxes come first."""


def copy(root: str, name: str, target: str, most_bytes: int) -> dict[str, Any]:
    """Copy a folder of root to a new name: all of it or nothing."""
    part = os.path.join(root, PART + target)
    if os.path.lexists(os.path.join(root, target)):
        raise FileError("EXISTS", f"there is a {target} already")
    clear(root, PART + target)
    os.mkdir(part, 0o700)
    try:
        done = fill(os.path.join(root, name), part, most_bytes)
        os.rename(part, os.path.join(root, target))
    except BaseException:
        clear(root, PART + target)
        raise
    return done


def fill(source: str, target: str, most_bytes: int) -> dict[str, Any]:
    """Copy a folder's content to an empty folder, except special files."""
    try:
        from_fd = os.open(source, READ_FOLDER)
    except FileNotFoundError:
        raise FileError("MISSING", "the folder is not there") from None
    with closing(from_fd), closing(os.open(target, READ_FOLDER)) as to_fd:
        copying = _Copying(from_fd, to_fd, most_bytes)
        copying.folder(from_fd, to_fd, "", 0)
        return {"bytes": copying.used, "left_out": copying.left_out}


class _Copying:
    def __init__(self, source: int, target: int, most_bytes: int) -> None:
        self.used = 0
        self.left_out = 0
        self._target = target
        self._most_bytes = most_bytes
        self._device = os.fstat(source).st_dev
        self._links: dict[tuple[int, int], str] = {}
        """By device and inode, the path in the target of each file with several names."""

    def folder(self, source: int, target: int, path: str, depth: int) -> None:
        """Copy one folder, then its owner, mode and time."""
        if depth > MAX_DEPTH:
            raise FileError("TOO_DEEP", f"more than {MAX_DEPTH} folders inside each other")
        for entry in entries(source):
            self._count(BYTES_OF_AN_ENTRY)
            try:
                self._entry(source, target, entry.name, os.path.join(path, entry.name), depth)
            except OSError as error:
                if error.errno not in _CHANGED:
                    raise
                self.left_out += 1
        _describe(target, os.fstat(source))

    def _entry(self, source: int, target: int, name: str, path: str, depth: int) -> None:
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) and status.st_dev == self._device:
            with closing(os.open(name, READ_FOLDER, dir_fd=source)) as inner:
                os.mkdir(name, 0o700, dir_fd=target)
                with closing(os.open(name, READ_FOLDER, dir_fd=target)) as made:
                    self.folder(inner, made, path, depth + 1)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            if os.geteuid() == 0:
                os.chown(name, status.st_uid, status.st_gid, dir_fd=target, follow_symlinks=False)
        elif stat.S_ISREG(status.st_mode):
            self._file(source, target, name, path)
        else:
            self.left_out += 1

    def _file(self, source: int, target: int, name: str, path: str) -> None:
        with closing(os.open(name, _READ_FILE, dir_fd=source)) as fd:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                self.left_out += 1
            elif not self._link(status, target, name, path):
                with closing(os.open(name, _CREATE, 0o600, dir_fd=target)) as made:
                    self._content(fd, made, status)
                    _describe(made, status)

    def _link(self, status: os.stat_result, target: int, name: str, path: str) -> bool:
        """Link a file that is already in the target under another name; return whether it is."""
        if status.st_nlink < 2:
            return False
        key = (status.st_dev, status.st_ino)
        known = self._links.get(key)
        if known is None:
            if len(self._links) < _MAX_LINKS:
                self._links[key] = path
            return False
        try:
            os.link(known, name, src_dir_fd=self._target, dst_dir_fd=target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
        return True

    def _content(self, source: int, target: int, status: os.stat_result) -> None:
        """Copy a file's content up to the size that it had when examined; holes stay holes."""
        try:
            fcntl.ioctl(target, _CLONE, source)
        except OSError:
            size, offset = status.st_size, 0
            while offset < size:
                start, end = _next_data(source, offset, size)
                self._piece(source, target, start, end)
                offset = end
            os.ftruncate(target, size)
        else:
            self._count(status.st_blocks * BLOCK_BYTES)

    def _piece(self, source: int, target: int, offset: int, end: int) -> None:
        os.lseek(target, offset, os.SEEK_SET)
        while offset < end:
            wanted = min(_PIECE_BYTES, end - offset)
            self._count(wanted)
            done = os.sendfile(target, source, offset, wanted)
            if not done:
                return
            offset += done

    def _count(self, number: int) -> None:
        self.used += number
        if self.used > self._most_bytes:
            raise FileError("TOO_LARGE", f"it is larger than {self._most_bytes} bytes")


def _next_data(fd: int, offset: int, size: int) -> tuple[int, int]:
    try:
        start = os.lseek(fd, offset, os.SEEK_DATA)
        return min(start, size), min(os.lseek(fd, start, os.SEEK_HOLE), size)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size, size
        return offset, size


def _describe(target: int, status: os.stat_result) -> None:
    """Give a copy the owner, mode and time of its source."""
    if os.geteuid() == 0:
        os.fchown(target, status.st_uid, status.st_gid)
    os.fchmod(target, status.st_mode & 0o1777)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def main(argv: list[str]) -> int:
    """Handle the request in the last argument; return the exit status."""
    os.umask(0o077)
    request = json.loads(argv[-1])
    if "parent" in request and not die_with_parent(request["parent"]):
        return 1
    if request.get("attended"):
        threading.Thread(target=_end_with_input, daemon=True).start()
    # End this process when nobody waits for it any more. A handler is needed, because a container's
    # first process ignores signals without one.
    signal.signal(signal.SIGALRM, lambda _signal, _frame: os._exit(128 + signal.SIGALRM))
    signal.alarm(request["within_s"])
    # End quietly when nobody reads the answer.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with suppress(OSError):
        os.nice(_PATIENCE)
    try:
        answer = handle(request)
    except FileError as error:
        answer = {"error": str(error), "code": error.code}
    except OSError as error:
        where = ascii(error.filename)[:200] if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        answer = {
            "error": f"{error.strerror or error} {where}".strip(),
            "code": "NO_SPACE" if full else "IO_ERROR",
        }
    print(ANSWER + json.dumps(answer), flush=True)  # noqa: T201 - this is how it answers
    return 0


def _end_with_input() -> None:
    """End this process when whoever started it is gone."""
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    os._exit(128 + signal.SIGHUP)


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; fails with FileError or OSError."""
    do, root = request["do"], request["root"]
    os.makedirs(root, mode=0o700, exist_ok=True)
    if do == "list":
        return {"names": list_workspaces(root)}
    if do == "remove_empty":
        return {
            "gone": [name for name in request["names"] if remove_empty(root, _check_name(name))]
        }
    if do == "measure":
        wanted = {
            _check_name(name): most_bytes for name, most_bytes in request["most_bytes"].items()
        }
        return {
            "sizes": {
                name: measure(os.path.join(root, name), most_bytes)
                for name, most_bytes in wanted.items()
            }
        }
    name = _check_name(request["name"])
    if do == "copy":
        return copy(root, name, _check_name(request["target"]), request["most_bytes"])
    if do == "fill":
        return fill(os.path.join(root, name), request["target"], request["most_bytes"])
    if do == "remove":
        # Boxes beside their workspaces may belong to other executors too.
        if users_of(os.path.dirname(root), os.path.join(root, name)):
            raise FileError("IN_USE", "a sandbox is over it")
        remove(root, name)
        return {}
    raise FileError("UNKNOWN", f"the request is not known: {do}")


def _check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise FileError("INVALID", f"{name!r} cannot be the name of a workspace")
    return name
