"""Outgoing frames of a link: one task writes them in order, and senders can wait for room."""

import asyncio
from typing import Any

from executor_service.errors import ExecutorError
from executor_service.link.byte_streams import ByteStream
from executor_service.supervisor import frames
from executor_service.supervisor.frames import FrameError

Buffer = bytes | bytearray | memoryview
_HIGH_BYTES = 512 * 1024
_FLOOD_BYTES = 64 * 1024 * 1024
_FLOOD_PARTS = 1 << 16
"""Senders that wait for room never queue this much; only answers to a box that does not read do."""


class Outgoing:
    """The queue in front of a stream."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._waiting: list[Buffer] = []
        self._waiting_bytes = 0
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._error: ExecutorError | None = None
        self.last_ident = 0
        self._expected: dict[tuple[int, int], asyncio.Future[Any]] = {}

    def expect(self, kind: int, ident: int) -> asyncio.Future[Any]:
        """A future for the box's answer; fails if the link ends before."""
        if self._error is not None:
            raise self._error
        answer = self._expected[kind, ident] = asyncio.get_running_loop().create_future()
        return answer

    def resolve(self, kind: int, ident: int, said: object) -> None:
        """Set the answer to a request, a value or an error; FrameError if nothing was asked."""
        answer = self._expected.pop((kind, ident), None)
        if answer is None:
            raise FrameError("answer to nothing")
        _settle(answer, said)

    def new_ident(self) -> int:
        self.last_ident += 1
        return self.last_ident

    def check_flood(self) -> None:
        """FrameError if the box lets too many answers pile up."""
        if self._waiting_bytes > _FLOOD_BYTES or len(self._waiting) > _FLOOD_PARTS:
            raise FrameError("the box does not read what it asks for")

    def send(self, kind: int, ident: int, *parts: Buffer) -> None:
        """Queue a frame; does nothing once the link has ended."""
        if self._error is not None:
            return
        self._waiting += (frames.header(kind, ident, *parts), *parts)
        self._waiting_bytes += frames.HEADER.size + sum(map(len, parts))
        self._more.set()
        if self._waiting_bytes > _HIGH_BYTES:
            self._room.clear()

    def send_json(self, kind: int, ident: int, message: dict[str, Any]) -> None:
        if self._error is None:
            packed = frames.pack_json(kind, ident, message)
            self._waiting.append(packed)
            self._waiting_bytes += len(packed)
            self._more.set()

    async def room(self) -> None:
        """Wait until not too much is queued; raises the link's error if it ends."""
        await self._room.wait()
        if self._error is not None:
            raise self._error

    async def run(self) -> None:
        """Write until the link ends; LinkClosed when the stream breaks."""
        while self._error is None:
            await self._more.wait()
            self._more.clear()
            batch, self._waiting = self._waiting, []
            if batch:
                await self._stream.write(batch[0] if len(batch) == 1 else b"".join(batch))
            self._waiting_bytes = sum(map(len, self._waiting))
            if self._waiting_bytes <= _HIGH_BYTES:
                self._room.set()

    def end(self, error: ExecutorError) -> None:
        """Drop the queue, because the link has ended, and wake all waiters."""
        self._error = error
        for answer in self._expected.values():
            _settle(answer, error)
        self._waiting.clear()
        self._more.set()
        self._room.set()


def _settle(answer: asyncio.Future[Any], said: object) -> None:
    """Does nothing if the caller has left."""
    if not answer.done():
        if isinstance(said, ExecutorError):
            answer.set_exception(said)
            # Mark the exception as seen, in case no caller reads it.
            answer.exception()
        else:
            answer.set_result(said)
