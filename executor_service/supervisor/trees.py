"""Looking at whole workspaces and removing them, whatever commands have left in them.

Folders are opened in the ones that they are in, and links are never followed.
"""

from __future__ import annotations

import errno
import math
import os
import re
import stat
import subprocess
from typing import Iterator

from executor_service.supervisor.syscalls import die_with_parent

MAX_DEPTH = 200
BLOCK_BYTES = 512
BYTES_OF_AN_ENTRY = 256
"""What a file costs besides its content, so that empty ones are counted too."""
READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}")
PART = ".part-"
"""Begins the name of a copy that is being made."""
_TO_READ = 0o500


def list_workspaces(root: str) -> list[str]:
    """The folders in root."""
    with os.scandir(root) as scan:
        folders = (entry.name for entry in scan if entry.is_dir(follow_symlinks=False))
        return sorted(filter(NAME.fullmatch, folders))


def measure(
    folder: str | os.PathLike[str], most_bytes: int, most_entries: float = math.inf
) -> tuple[int, bool]:
    """What a folder's content takes, and whether all was seen: not more than `most_bytes` or
    `most_entries`, nor too deep. Whoever fills it may change it meanwhile."""
    try:
        root = os.open(folder, READ_FOLDER)
    except OSError as error:
        # Whoever fills it may also close it, and then nobody has seen what is in it.
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
    """What is in an open folder."""
    with os.scandir(fd) as scan:
        yield from scan


def remove_empty(root: str, name: str) -> bool:
    """Remove a folder of root if nothing is in it; whether it is gone."""
    try:
        os.rmdir(os.path.join(root, name))
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


def remove(root: str, name: str) -> None:
    """Remove a folder of root with all that it has, however deep; no error if it is gone."""
    # Whoever still copies to it finds nothing to give the name to.
    for each in (PART + name, name):
        clear(root, each)


def clear(root: str, name: str) -> None:
    """Remove a folder of root with all that it has, however deep, and whatever its bits are."""
    path, ours = os.path.join(root, name), os.getpid()
    # First without chmod, which would follow a link that has the name.
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
    """A folder that can be read, although its owner may have closed it."""
    if os.geteuid() == 0:
        return os.open(name, READ_FOLDER, dir_fd=parent)
    held = os.open(name, os.O_PATH | READ_FOLDER, dir_fd=parent)
    try:
        mode = stat.S_IMODE(os.fstat(held).st_mode)
        if mode & _TO_READ != _TO_READ:
            # Only through procfs can this be done to what is open and not to its name.
            os.chmod(f"/proc/self/fd/{held}", mode | _TO_READ)
        return os.open(".", READ_FOLDER, dir_fd=held)
    finally:
        os.close(held)
