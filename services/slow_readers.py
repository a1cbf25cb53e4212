"""Streams to clients that may have stopped reading."""

import asyncio
from types import TracebackType
from typing import Any, Self

import grpc.aio

from services.deadlines import STALLED_READER_S
from services.errors import Unavailable


class PatientWriter:
    """Writes a stream's messages inside `async with`, which fails when the client takes none.

    One timer watches all of them: one for each message takes a third of the time of the message.
    """

    def __init__(
        self, context: grpc.aio.ServicerContext[Any, Any], limit_s: float = STALLED_READER_S
    ) -> None:
        """Take how long the client may let a message wait."""
        self._context = context
        self._limit_s = limit_s
        self._writing_since: float | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(limit_s, self._look)
        self._stalled = asyncio.timeout(None)

    async def __aenter__(self) -> Self:
        await self._stalled.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        try:
            await self._stalled.__aexit__(kind, error, trace)
        except TimeoutError:
            raise Unavailable("the client has stopped reading") from None

    async def write(self, message: Any) -> None:
        """Send a message, once the client has room for it."""
        self._writing_since = self._loop.time()
        try:
            await self._context.write(message)
        finally:
            self._writing_since = None

    def _look(self) -> None:
        now = self._loop.time()
        ends = self._limit_s + (now if self._writing_since is None else self._writing_since)
        if ends > now:
            self._timer = self._loop.call_at(ends, self._look)
        else:
            self._stalled.reschedule(now)
