"""The interface to the files of a profile's `skills/`, and its implementation in a home."""

import asyncio
import errno
import os
import secrets
import stat
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from agent_service.profiles.skills.names import DOCUMENT
from services.home.file_lock import LockHeld, wait_for


class FileRefused(Exception):
    """A file cannot be read or written; the message says why."""


class LibraryBusy(FileRefused):
    """Another process is changing the files; the call may succeed later."""


class FileFact(Struct, frozen=True):
    """A file's size and times, which tell whether it changed."""

    size_bytes: int
    modified_at_ns: int


class SkillFiles(Protocol):
    """Files and folders of a library; every method may raise FileRefused."""

    async def tree(self) -> Mapping[str, FileFact]:
        """Return every regular file down to `category/skill/references/file`, by path."""
        ...

    async def read(self, path: str, max_bytes: int) -> bytes | None:
        """Return the whole file, or None if there is none; FileRefused if it is longer."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Create or atomically replace a file, and create its folders."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file if it exists, and its folder if that is then empty."""
        ...

    async def move(self, source: str, target: str) -> None:
        """Move a folder to a place that must be free."""
        ...

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Lock the files against other writers."""
        ...


LOCK = ".usage.json.lock"
MAX_FILES = 20_000
MAX_DEPTH = 8
"""The most names in a path: five of a category, one of a skill, and references/file."""
LOCK_PATIENCE_S = 10.0

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class HomeSkillFiles:
    """The folder `skills` of a home, which may be a link; links in it are not followed."""

    def __init__(
        self, root: Path, lock: str = LOCK, *, patience_s: float = LOCK_PATIENCE_S
    ) -> None:
        self._root = root
        self._lock = lock
        self._patience_s = patience_s

    async def tree(self) -> Mapping[str, FileFact]:
        return await asyncio.to_thread(self._tree)

    async def read(self, path: str, max_bytes: int) -> bytes | None:
        return await asyncio.to_thread(self._read, path, max_bytes)

    async def write(self, path: str, data: bytes) -> None:
        await asyncio.to_thread(self._write, path, data)

    async def remove(self, path: str) -> None:
        await asyncio.to_thread(self._remove, path)

    async def move(self, source: str, target: str) -> None:
        await asyncio.to_thread(self._move, source, target)

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        handle = await asyncio.to_thread(self._open_lock)
        try:
            await wait_for(handle, self._patience_s)
            yield
        except LockHeld as error:
            raise LibraryBusy(f"{self._root / self._lock} is held by {error}") from None
        finally:
            os.close(handle)

    def _tree(self) -> Mapping[str, FileFact]:
        found: dict[str, FileFact] = {}
        folders = [("", MAX_DEPTH - 1)]
        while folders:
            folder, levels = folders.pop()
            try:
                files, inner = self._listed(folder)
            except (FileNotFoundError, PermissionError):
                continue  # deleted since it was listed, or not readable by us
            found |= files
            if f"{folder}/{DOCUMENT}" in files:
                levels = min(levels, 1)  # its support files
            if levels > 0:
                folders += [(each, levels - 1) for each in inner]
            if len(found) > MAX_FILES:
                raise FileRefused(f"{self._root} has more than {MAX_FILES:,} files")
        return found

    def _listed(self, folder: str) -> tuple[Mapping[str, FileFact], list[str]]:
        files: dict[str, FileFact] = {}
        folders: list[str] = []
        with self._folder(folder) as handle, os.scandir(handle) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif entry.is_file(follow_symlinks=False):
                    fact = entry.stat(follow_symlinks=False)
                    files[path] = FileFact(fact.st_size, fact.st_mtime_ns)
        return files, folders

    def _read(self, path: str, max_bytes: int) -> bytes | None:
        folder, name = _split(path)
        try:
            with self._folder(folder) as parent:
                handle = os.open(name, _FILE, dir_fd=parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _refused(path, error) from None
        with os.fdopen(handle, "rb") as stream:
            fact = os.fstat(handle)
            if not stat.S_ISREG(fact.st_mode):
                raise FileRefused(f"{path} is no file")
            data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise FileRefused(f"{path} is longer than {max_bytes:,} bytes")
        return data

    def _write(self, path: str, data: bytes) -> None:
        folder, name = _split(path)
        temporary = f".{name}.{secrets.token_hex(6)}"
        try:
            with self._folder(folder, make=True) as parent:
                try:
                    _write_through(parent, temporary, data, _mode(parent, name))
                    os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
                    os.fsync(parent)
                except OSError:
                    _unlink(parent, temporary)
                    raise
        except OSError as error:
            raise _refused(path, error) from None

    def _remove(self, path: str) -> None:
        folder, name = _split(path)
        above, _, last = folder.rpartition("/")
        try:
            with self._folder(folder) as parent:
                os.unlink(name, dir_fd=parent)
                os.fsync(parent)
            with self._folder(above) as parent:
                os.rmdir(last, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise _refused(path, error) from None

    def _move(self, source: str, target: str) -> None:
        source_folder, source_name = _split(source)
        target_folder, target_name = _split(target)
        try:
            with (
                self._folder(source_folder) as left,
                self._folder(target_folder, make=True) as right,
            ):
                if _is_there(right, target_name):
                    raise FileRefused(f"{target} is there already")
                os.rename(source_name, target_name, src_dir_fd=left, dst_dir_fd=right)
                os.fsync(left)
                os.fsync(right)
        except OSError as error:
            raise _refused(source, error) from None

    def _open_lock(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with self._folder("", make=True) as root:
                return os.open(self._lock, flags, 0o600, dir_fd=root)
        except OSError as error:
            raise _refused(self._lock, error) from None

    @contextmanager
    def _folder(self, path: str, *, make: bool = False) -> Generator[int]:
        """Open a folder step by step, so that no step follows a link."""
        if make:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in path.split("/") if path else ():
                _check_name(name, path)
                if make and not _is_there(handle, name):
                    os.mkdir(name, 0o700, dir_fd=handle)
                inner = os.open(name, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    _check_name(name, path)
    return folder, name


def _check_name(name: str, path: str) -> None:
    if name in ("", ".", "..") or "\0" in name:
        raise FileRefused(f"{path!r} is no path in the library")


def _write_through(parent: int, name: str, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(name, flags, mode, dir_fd=parent)
    with os.fdopen(handle, "wb") as stream:
        os.fchmod(handle, mode)
        stream.write(data)
        stream.flush()
        os.fsync(handle)


def _mode(parent: int, name: str) -> int:
    """Return the mode of the file to be replaced, which its owner may have chosen."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return 0o600
    if not stat.S_ISREG(found.st_mode):
        raise FileRefused(f"{name} is a link or no file")
    return stat.S_IMODE(found.st_mode)


def _is_there(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _unlink(parent: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return


def _refused(path: str, error: OSError) -> FileRefused:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return FileRefused(f"{path} is, or is behind, a link or a file, which is not followed")
    return FileRefused(f"{path}: {error.strerror}")
