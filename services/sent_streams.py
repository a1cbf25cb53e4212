"""Calls that send a stream, and say of a refusal what the server has said.

Where a server ends such a call while a message is being written to it, gRPC's client gives it a
status of its own, just before or just after that of the server, and the later one stays. Here the
server's counts, whichever comes first.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Self, TypeVar

import grpc
import grpc.aio

from services.errors import WRITTEN_TOO_LATE

_T = TypeVar("_T")

_LOOKS, _LOOK_AFTER_S = 100, 0.01


class SentStream:
    """A call of a method with a stream of requests, and with one answer or a stream of them."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._answers: AsyncIterator[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[grpc.aio.AioRpcError] = self._loop.create_future()
        call.add_done_callback(self._look)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    # ---- what it answers

    def __await__(self) -> Generator[Any, None, Any]:
        return self._meant(self._call).__await__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._answers is None:
            self._answers = aiter(self._call)
        return await self._meant(anext(self._answers))

    async def read(self) -> Any:
        """Return the next answer, or `grpc.aio.EOF` after the last one."""
        return await self._meant(self._call.read())

    async def write(self, message: Any) -> None:
        """Send one more request."""
        await self._meant(self._call.write(message))

    # ---- how it ended

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Have a function called when it is known how the call has ended."""
        self._ended.add_done_callback(lambda _: callback(self))

    async def code(self) -> grpc.StatusCode:
        """Return its status, once it has one."""
        return (await asyncio.shield(self._ended)).code()

    def _look(self, _: object, looks: int = _LOOKS) -> None:
        call, metadata = self._call, grpc.aio.Metadata()
        details = at_once(call.details())
        if details == WRITTEN_TOO_LATE and looks:
            # Of two statuses, nobody is told of the second.
            self._loop.call_later(_LOOK_AFTER_S, self._look, call, looks - 1)
            return
        code, trailing = at_once(call.code()), at_once(call.trailing_metadata())
        self._ended.set_result(grpc.aio.AioRpcError(code, metadata, trailing, details, None))

    async def _meant(self, answer: Any) -> Any:
        try:
            return await answer
        except grpc.aio.AioRpcError as error:
            if error.details() != WRITTEN_TOO_LATE:
                raise
            ended = await asyncio.shield(self._ended)
            if ended.code() is grpc.StatusCode.OK:
                raise  # what was still to be read is lost
        raise ended


def at_once(coro: Coroutine[Any, Any, _T]) -> _T:
    """What a coroutine returns that has nothing to wait for, as those of a call that is done."""
    try:
        coro.send(None)
    except StopIteration as finished:
        return finished.value
    coro.close()
    raise asyncio.InvalidStateError("the call has not ended")
