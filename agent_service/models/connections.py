"""The idle connections of one endpoint: each is a client of the SDK of its own.

One client with many connections looks at every idle one of them when a request begins and again
when it ends, which at 64 conversations takes a tenth of the whole processor time of a turn.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

from msgspec import Struct

from services.errors import Draining
from services.lifecycle import Workers

KEEP_ALIVE_S = 120.0
"""An idle connection is kept for as long as a person or a tool usually takes between two calls:
a new one costs a TLS handshake before the first token."""
MAX_IDLE = 64
"""No more idle ones are kept, however many were used at once."""


class _Idle(Struct, frozen=True):
    client: Any
    since_s: float


class Connections:
    """Hands out a client for each request, the one used last first.

    The first one is made at once: whoever makes this does so in a thread, as the SDK loads what it
    needs with its first client. Others take less than a millisecond. Those that nobody has used for
    a while are closed, also when no request comes any more.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        keep_alive_s: float = KEEP_ALIVE_S,
        max_idle: int = MAX_IDLE,
    ) -> None:
        self._connect = connect
        self._keep_alive_s = keep_alive_s
        self._max_idle = max_idle
        self._idle = deque([_Idle(connect(), monotonic())])
        self._workers = Workers()
        self._closes_unused = False
        """Whether a worker looks after what is idle; it is among the workers a bit longer."""

    @property
    def idle_count(self) -> int:
        """Clients that nobody uses."""
        return len(self._idle)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[Any]:
        """A client that nobody else uses meanwhile."""
        client = self._idle.pop().client if self._idle else self._connect()
        try:
            yield client
        finally:
            self._idle.append(_Idle(client, monotonic()))
            if not self._closes_unused:
                with suppress(Draining):  # it is closed already
                    self._workers.start("closing of idle connections", self._close_unused())
                    self._closes_unused = True
            while len(self._idle) > self._max_idle:
                await self._idle.popleft().client.close()

    async def close(self) -> None:
        """Close those that are not in use."""
        async with self._workers:
            pass  # what waits there waits for nothing any more
        while self._idle:
            await self._idle.pop().client.close()

    async def _close_unused(self) -> None:
        """Close what nobody needs, as it becomes that, until nothing is left."""
        try:
            while self._idle:
                wait_s = self._idle[0].since_s + self._keep_alive_s - monotonic()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                else:
                    await self._idle.popleft().client.close()
        finally:
            self._closes_unused = False
