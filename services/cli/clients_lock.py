"""Who uses the services of a home: so that a command that runs them outlives the others."""

import asyncio
import fcntl
import os
from types import TracebackType
from typing import Self

from services.home import HomePaths


class ClientsLock:
    """Held by every command that talks to the home's socket; the last one may close the door.

    A command that runs services for itself waits for the others before it stops them, and whoever
    comes in that moment waits until they are stopped, and runs its own.
    """

    def __init__(self, home: HomePaths) -> None:
        self._path = home.run / "clients.lock"
        self._descriptor = -1

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    async def step_aside(self, seconds: float) -> None:
        """Be nobody for a while, so that whoever waits for the last one can go."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(fcntl.flock, self._descriptor, fcntl.LOCK_SH)

    async def outlive_others(self) -> None:
        """Return when no other command is using the services, and let none begin."""
        await asyncio.to_thread(fcntl.flock, self._descriptor, fcntl.LOCK_EX)

    def _open(self) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
