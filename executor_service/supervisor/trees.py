"""Lists, measures and removes whole workspaces; never follows links."""

from __future__ import annotations

import errno
import math
import os
import re
import stat
import subprocess

from executor_service.supervisor.syscalls import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

MAX_DEPTH = 200
BLOCK_BYTES = 512
BYTES_OF_AN_ENTRY = 256
"""What a file counts besides its content, so that empty files count too."""
READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}")
PART = ".part-"
"""Prefix of the name of an unfinished copy."""
_TO_READ = 0o500


def list_workspaces(root: str) -> list[str]:
    """List the folders in root."""
    with os.scandir(root) as scan:
        folders = (entry.name for entry in scan if entry.is_dir(follow_symlinks=False))
        return sorted(filter(NAME.fullmatch, folders))


def measure(
    folder: str | os.PathLike[str], most_bytes: int, most_entries: float = math.inf
) -> tuple[int, bool]:
    """Return the size of a folder, and whether all of it was seen.

    Stops at `most_bytes`, `most_entries` or MAX_DEPTH. Commands may change the folder meanwhile.
    """
    try:
        root = os.open(folder, READ_FOLDER)
    except OSError as error:
        # Commands can make it unreadable; then nobody knows what is in it.
        return 0, error.errno == errno.ENOENT
    used, count, stack = 0, 0, [(root, iter(entries(root)))]
    try:
        while stack:
            parent, left = stack[-1]
            entry = next(left, None)
            if entry is None:
                os.close(stack.pop()[0])
                continue
            used, count = used + BYTES_OF_AN_ENTRY, count + 1
            try:
                status = entry.stat(follow_symlinks=False)
                used += status.st_blocks * BLOCK_BYTES
                if stat.S_ISDIR(status.st_mode):
                    child = _opened(entry.name, parent)
                    stack.append((child, iter(entries(child))))
            except PermissionError:
                return used, False
            except OSError:
                continue
            if used > most_bytes or count > most_entries or len(stack) > MAX_DEPTH:
                return used, False
        return used, True
    finally:
        for fd, _ in stack:
            os.close(fd)


def entries(fd: int) -> Iterator[os.DirEntry[str]]:
    """List an open folder."""
    with os.scandir(fd) as scan:
        yield from scan


def remove_empty(root: str, name: str) -> bool:
    """Remove a folder of root if it is empty; return whether it is gone."""
    try:
        os.rmdir(os.path.join(root, name))
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


def remove(root: str, name: str) -> None:
    """Remove a folder of root with its content; no error if it is gone."""
    # Without its `.part-` folder, a running copy cannot finish.
    for each in (PART + name, name):
        clear(root, each)


def clear(root: str, name: str) -> None:
    """Remove a folder of root with its content, however deep, whatever its permissions."""
    path, ours = os.path.join(root, name), os.getpid()
    # Try rm before chmod, which would follow a link with this name.
    for program in (("rm", "-rf"), ("chmod", "-R", "u+rwX"), ("rm", "-rf")):
        if not os.path.lexists(path):
            return
        subprocess.run(
            [*program, "--", path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            preexec_fn=lambda: None if die_with_parent(ours) else os._exit(1),
        )
    if os.path.lexists(path):
        raise OSError(errno.ENOTEMPTY, "it cannot be removed", path)


def _opened(name: str, parent: int) -> int:
    """Open a folder, and make it readable first if needed."""
    if os.geteuid() == 0:
        return os.open(name, READ_FOLDER, dir_fd=parent)
    held = os.open(name, os.O_PATH | READ_FOLDER, dir_fd=parent)
    try:
        mode = stat.S_IMODE(os.fstat(held).st_mode)
        if mode & _TO_READ != _TO_READ:
            # Only procfs can change the mode of an open folder instead of a name.
            os.chmod(f"/proc/self/fd/{held}", mode | _TO_READ)
        return os.open(".", READ_FOLDER, dir_fd=held)
    finally:
        os.close(held)
