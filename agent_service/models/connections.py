"""The idle connections of one endpoint: each is a client of the SDK of its own.

One client with many connections looks at every idle one of them when a request begins and again
when it ends, which at 64 conversations takes a tenth of the whole processor time of a turn.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from msgspec import Struct

KEEP_ALIVE_S = 120.0
"""An idle connection is kept for as long as a person or a tool usually takes between two calls:
a new one costs a TLS handshake before the first token."""


class _Idle(Struct, frozen=True):
    client: Any
    since_s: float


class Connections:
    """Hands out a client for each request, the one used last first.

    The first one is made at once: whoever makes this does so in a thread, as the SDK loads what it
    needs with its first client. Others take less than a millisecond.
    """

    def __init__(self, connect: Callable[[], Any], keep_alive_s: float = KEEP_ALIVE_S) -> None:
        self._connect = connect
        self._keep_alive_s = keep_alive_s
        self._idle = deque([_Idle(connect(), monotonic())])

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[Any]:
        """A client that nobody else uses meanwhile."""
        client = self._idle.pop().client if self._idle else self._connect()
        try:
            yield client
        finally:
            now_s = monotonic()
            self._idle.append(_Idle(client, now_s))
            if now_s - self._idle[0].since_s > self._keep_alive_s:
                await self._idle.popleft().client.close()

    async def close(self) -> None:
        """Close those that are not in use."""
        while self._idle:
            await self._idle.pop().client.close()
