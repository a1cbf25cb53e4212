"""auth.json of a home: logins of this program and of older ones, and its lock."""

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

from agent_service.oauth.store import LOCK_WAIT_S
from services.errors import FailedPrecondition, Unavailable
from services.home import replace_file

_LOOK_S = 0.02
_PRIVATE = 0o600
_MAX_BYTES = 4 * 1024 * 1024


class LoginFile:
    """A file, readable for its owner alone."""

    def __init__(self, path: Path, *, lock_wait_s: float = LOCK_WAIT_S) -> None:
        self.name = str(path)
        self.path = path
        self._lock_wait_s = lock_wait_s

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Keep every other process of the home from changing logins meanwhile."""
        # Older programs lock this file as well.
        path = self.path.with_suffix(".lock")
        lock = await asyncio.to_thread(_open, path)
        try:
            await _lock(lock, path, self._lock_wait_s)
            yield
        finally:
            os.close(lock)  # which lets go of it

    async def read(self) -> dict[str, Any]:
        """What it says; empty where it is not there."""
        return await asyncio.to_thread(_read, self.path)

    async def write(self, document: Mapping[str, Any]) -> None:
        """Write it anew."""
        text = json.dumps(document, indent=2) + "\n"
        await asyncio.to_thread(replace_file, self.path, text, _PRIVATE)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FailedPrecondition(f"{path} cannot be read: {error.strerror}") from None
    try:
        document: Any = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or len(data) > _MAX_BYTES:
        # It may have logins of other programs, so it is not for us to write it anew.
        raise FailedPrecondition(f"{path} is damaged: repair it, or move it away and log in again")
    return cast("dict[str, Any]", document)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags, _PRIVATE)
    except OSError as error:
        raise FailedPrecondition(f"{path} cannot be locked: {error.strerror}") from None


async def _lock(lock: int, path: Path, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        raise Unavailable(f"another program holds {path}; try again") from None
