"""The lock that keeps a second process from serving from the same SQLite file."""

import fcntl
import os
from pathlib import Path

from services.database.errors import DatabaseInUse


class FileLock:
    """An flock on `<database>.lock`, in which the holder leaves its process id."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.with_name(f"{database.name}.lock")
        self._file: int | None = None

    def acquire(self) -> None:
        """Hold the lock until `release`; raise DatabaseInUse if another process has it."""
        if self._file is not None:
            return
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 32).decode(errors="replace").strip()
            os.close(file)
            by = f" by process {holder}" if holder.isdigit() else ""
            raise DatabaseInUse(
                f"{self._database} is in use{by}; stop that `hermes` first, or use it"
            ) from None
        except OSError:
            os.close(file)
            raise
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        """Let another process have it; the lock's file stays, as removing it would be a race."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
