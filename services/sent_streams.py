"""Calls that send a stream and get one answer, and say of a refusal what the server has said.

Where a server ends such a call while a message is being written to it, gRPC's client gives it a
status of its own, just before or just after that of the server, and the later one stays. Here the
server's counts, whichever comes first.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

import grpc
import grpc.aio

from services.errors import WRITTEN_TOO_LATE

_T = TypeVar("_T")

_LOOKS, _LOOK_AFTER_S = 100, 0.01


class SentStream:
    """A call of a method with a stream of requests and one answer."""

    def __init__(self, call: "grpc.aio.StreamUnaryCall[Any, Any]") -> None:
        self._call = call
        self._first: grpc.aio.AioRpcError | None = None
        call.add_done_callback(self._keep)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._answer().__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def _keep(self, _: object) -> None:
        self._first = self._ending()  # of two, only the first is told

    def _ending(self) -> grpc.aio.AioRpcError:
        call, metadata = self._call, grpc.aio.Metadata()
        trailing, details = at_once(call.trailing_metadata()), at_once(call.details())
        return grpc.aio.AioRpcError(at_once(call.code()), metadata, trailing, details, None)

    async def _answer(self) -> Any:
        try:
            return await self._call
        except grpc.aio.AioRpcError as error:
            if error.details() != WRITTEN_TOO_LATE:
                raise
        raise await self._told()

    async def _told(self) -> grpc.aio.AioRpcError:
        ending, looks = self._first or self._ending(), 0
        while ending.details() == WRITTEN_TOO_LATE and looks < _LOOKS:
            await asyncio.sleep(_LOOK_AFTER_S)  # nobody is told of the second
            ending, looks = self._ending(), looks + 1
        return ending


def at_once(coro: Coroutine[Any, Any, _T]) -> _T:
    """What a coroutine returns that has nothing to wait for, as those of a call that is done."""
    try:
        coro.send(None)
    except StopIteration as finished:
        return finished.value
    coro.close()
    raise asyncio.InvalidStateError("the call has not ended")
