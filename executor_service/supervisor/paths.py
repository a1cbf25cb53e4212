"""Opens paths without races and without following the links of procfs.

A path is absolute or relative to the workspace, which is always called /workspace. A path may name
everything that the box can see, so ordinary symbolic links and `..` are fine. Links of procfs are
refused, because magic ones (/proc/self/fd/3, /proc/1/root) lead out through what a process has
open. No path is checked by name and then opened by name: each step works on a descriptor.
"""

from __future__ import annotations

import errno
import os
import stat

_MAX_PATH_BYTES = 4095
_MAX_NAME_BYTES = 255
_WORKSPACE = "/workspace"
_MAX_LINKS = 40
_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class closing:  # noqa: N801 - like contextlib's
    """Closes a descriptor at the end of the block."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_error: object) -> None:
        os.close(self._fd)


class Paths:
    """Opens paths, one component at a time."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._proc_device = os.stat("/proc").st_dev
        self._root = os.open("/", _FOLDER_FLAGS)

    def open(self, path: str, flags: int) -> int:
        """Return a descriptor for path; OSError with ELOOP for magic links, EINVAL for NUL."""
        return self._open(self._absolute(path), flags, self._root)

    def open_directory(self, path: str) -> int:
        return self.open(path, _FOLDER_FLAGS)

    def open_parent(self, path: str, follow: bool = False) -> tuple[int, str]:
        """Return path's folder and the name in it; follow also resolves symbolic links.

        The name is one plain component, so operations on it stay in that folder.
        """
        parent, name = _split(self._absolute(path))
        folder = self._open(parent, _FOLDER_FLAGS, self._root)
        for _ in range(_MAX_LINKS):
            previous = folder
            try:
                target = self._read_link(name, folder) if follow else None
                if target is None:
                    return folder, name
                parent, name = _split(target)
                folder = self._open(parent or ".", _FOLDER_FLAGS, previous)
            except OSError:
                os.close(previous)
                raise
            os.close(previous)
        os.close(folder)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def _absolute(self, path: str) -> str:
        if not path or "\0" in path:
            raise OSError(errno.EINVAL, "Path is empty or has a NUL character", path)
        try:
            encoded = os.fsencode(path)
        except UnicodeError:
            raise OSError(errno.EINVAL, "Path is not text", ascii(path)) from None
        if len(encoded) > _MAX_PATH_BYTES or any(
            len(name) > _MAX_NAME_BYTES for name in encoded.split(b"/")
        ):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path[:64] + "...")
        if self._workspace != _WORKSPACE and f"{path}/".startswith(f"{_WORKSPACE}/"):
            path = path[len(_WORKSPACE) :].lstrip("/")
        return os.path.join(self._workspace, path)

    def _read_link(self, name: str, folder: int) -> str | None:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISLNK(found.st_mode):
            return None
        if found.st_dev == self._proc_device:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        return os.readlink(name, dir_fd=folder)

    def _open(self, path: str, flags: int, start: int) -> int:
        """Open a path that is absolute or starts from a folder."""
        try:
            return self._walk(path, flags, start)
        except OSError as error:
            error.filename = path  # instead of a component's name
            raise

    def _walk(self, path: str, flags: int, start: int) -> int:
        todo = _components(path)
        current = os.dup(self._root if path.startswith("/") else start)
        links = 0
        try:
            while todo:
                name = todo.pop()
                target = self._read_link(name, current)
                if target is None or (not todo and flags & os.O_NOFOLLOW):
                    step = _FOLDER_FLAGS if todo else flags
                    opened = os.open(name, step | os.O_NOFOLLOW, dir_fd=current)
                    if not todo:
                        return opened
                else:
                    links += 1
                    if links > _MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                    todo += _components(target)
                    opened = os.dup(self._root if target.startswith("/") else current)
                os.close(current)
                current = opened
            return os.open(".", flags, dir_fd=current)
        finally:
            os.close(current)


def _components(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _split(path: str) -> tuple[str, str]:
    parent, name = os.path.split(path.rstrip("/"))
    if name in ("", ".", ".."):
        raise OSError(errno.EINVAL, "Path does not end in a name", path)
    return parent, name
