"""Where platforms store what they receive in tests."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from gateway_service.messages import Event
from gateway_service.platforms.base import NOTHING, Platform, Received
from services.errors import DatabaseUnavailable, HermesError


class Collected:
    """A sink in memory."""

    def __init__(self, cursor: str = "") -> None:
        self.cursor = cursor
        self.events = list[Event]()
        self.stored = 0
        self._came = asyncio.Event()

    async def store(self, received: Received = NOTHING) -> None:
        self.cursor = received.cursor or self.cursor
        self.stored += 1
        self.events += received.events
        self._came.set()

    async def take(self, platform: Platform, count: int, limit_s: float = 10) -> Sequence[Event]:
        """Listen until so many events have come."""
        async with asyncio.timeout(limit_s), self.listening(platform):
            return await self.until(count)

    @asynccontextmanager
    async def listening(self, platform: Platform) -> AsyncGenerator[None]:
        """Listen until the context is left; what ends it ends the context."""
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(platform.listen(self))
            yield
            listening.cancel()

    async def listen_on(self, platform: Platform) -> None:
        """Listen again and again, as an account's runner does."""
        while True:
            try:
                await platform.listen(self)
            except HermesError:
                await asyncio.sleep(0.05)

    async def until(self, count: int) -> Sequence[Event]:
        """Wait until so many events have come."""
        while len(self.events) < count:
            self._came.clear()
            await self._came.wait()
        return self.events


class Full(Collected):
    """A sink whose disk is full."""

    async def store(self, received: Received = NOTHING) -> None:
        await super().store(received)
        if received.events:
            raise DatabaseUnavailable("the disk is full")


async def listen(cursor: str, platform: Platform, count: int) -> Sequence[Event]:
    """Return the first events of an account, once there are so many."""
    return await Collected(cursor).take(platform, count)
