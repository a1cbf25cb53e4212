"""Lock files, held by one process at a time, and optionally naming it."""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from services.errors import FailedPrecondition, Unavailable

_LOOK_S = 0.02


class LockHeld(Exception):
    """Another process has the lock; the message names it."""


class FileLock:
    """An flock on a file with the holder's process id; removing the file would be a race."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self) -> None:
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

    def is_held(self) -> bool:
        """Return whether a process holds the lock, this one included."""
        try:
            with self._path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def progress(self) -> str:
        """Return what changes while the holder works: its id and the CPU time that it has used."""
        with suppress(OSError):
            holder = self._path.read_text("ascii").strip()
            fields = Path(f"/proc/{holder}/stat").read_text(errors="replace").rpartition(")")[2]
            return " ".join((holder, *fields.split()[11:13]))
        return ""

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


@asynccontextmanager
async def locked_by(path: Path, what: str, wait_s: float) -> AsyncGenerator[None]:
    """Hold a lock file, created if missing; Unavailable if another process holds it for longer."""
    lock = await asyncio.to_thread(_open, path)
    try:
        await wait_for(lock, wait_s)
        yield
    except LockHeld:
        raise Unavailable(f"another program holds {what}; try again") from None
    finally:
        os.close(lock)  # also releases it


async def wait_for(lock: int, wait_s: float) -> None:
    """Lock an open file; LockHeld if another process holds it for longer."""
    try:
        async with asyncio.timeout(wait_s):
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        raise LockHeld("another program") from None


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise FailedPrecondition(f"{path} cannot be locked: {error.strerror}") from None
