"""One direction of a call."""

import asyncio
from collections import deque

WINDOW_BYTES = 64 * 1024
"""A writer waits while so much of what it wrote has not been read."""


class Pipe:
    """Encoded messages between one writer and one reader."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._ended = False
        self._moved: asyncio.Future[None] | None = None
        """Whom the other side wakes: the reader of an empty pipe, or the writer of a full one."""

    async def put(self, message: bytes) -> bool:
        """Hand a message over once there is room; False when the pipe has been ended."""
        while self._bytes >= WINDOW_BYTES and not self._ended:
            await self._move()
        if self._ended:
            return False
        self._messages.append(message)
        self._bytes += len(message)
        self._wake()
        return True

    async def get(self) -> bytes | None:
        """Take the next message; None when no more will come."""
        while not self._messages:
            if self._ended:
                return None
            await self._move()
        message = self._messages.popleft()
        self._bytes -= len(message)
        self._wake()
        return message

    def end(self) -> None:
        """Say that nothing more will be written; what waits can still be read."""
        self._ended = True
        self._wake()

    def drop(self) -> None:
        """End the pipe and forget what waits in it."""
        self._messages.clear()
        self._bytes = 0
        self.end()

    async def _move(self) -> None:
        self._moved = asyncio.get_running_loop().create_future()
        await self._moved

    def _wake(self) -> None:
        moved, self._moved = self._moved, None
        if moved is not None and not moved.done():
            moved.set_result(None)
