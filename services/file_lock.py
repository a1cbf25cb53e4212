"""A lock file that one process holds, and that says which."""

import fcntl
import os
from pathlib import Path


class LockHeld(Exception):
    """Another process has the lock; the text names it."""


class FileLock:
    """An flock on a file, in which the holder leaves its process id.

    The kernel drops it with the process, however that ends. The file stays, as removing it would
    be a race.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self) -> None:
        """Hold the lock until `release`; raise LockHeld or OSError."""
        if self._file is not None:
            return
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(file, 32, 0).decode(errors="replace").strip()
            os.close(file)
            if not isinstance(error, BlockingIOError):
                raise
            by = f"process {holder}" if holder.isdigit() else "another program"
            raise LockHeld(by) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        """Let another process have it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
