"""What a stream has to say, from many tasks in order."""

import asyncio
from collections.abc import AsyncGenerator

from hermes.gateway.v1.conversation_pb2 import ConverseResponse

MAX_WAITING = 64
"""Responses that wait for a client that reads slowly; then those that speak wait too."""


class Outgoing:
    """The responses of one stream: said by tasks, written by the call's handler."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MAX_WAITING)
        self._waiting: asyncio.Queue[
            tuple[ConverseResponse, asyncio.Event | None] | BaseException | None
        ] = asyncio.Queue()

    async def say(self, response: ConverseResponse) -> None:
        """Send this after what was said before."""
        await self._room.acquire()
        self._waiting.put_nowait((response, None))

    async def tell(self, response: ConverseResponse) -> None:
        """Send this, and return when it has been written."""
        written = asyncio.Event()
        await self._room.acquire()
        self._waiting.put_nowait((response, written))
        await written.wait()

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more will be said; with an error the stream fails with it."""
        self._waiting.put_nowait(error)

    async def responses(self) -> AsyncGenerator[ConverseResponse]:
        """What is said, up to the end."""
        while (item := await self._waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            response, written = item
            yield response
            self._room.release()
            if written is not None:
                written.set()
