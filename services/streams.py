"""Streams as a client uses them: cancelled when left, and resumed where they broke off."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from time import monotonic
from typing import Generic, Protocol, TypeVar

import grpc
import grpc.aio

from services.errors import ServiceUnavailable

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0


class Cancellable(Protocol):
    """What every call of gRPC is."""

    def cancel(self) -> bool:
        """Ends the call; does nothing when it has ended."""
        ...


_Call = TypeVar("_Call", bound=Cancellable)
_Message = TypeVar("_Message")
_Received_co = TypeVar("_Received_co", covariant=True)


class Stream(Cancellable, Protocol[_Received_co]):
    """A call whose answers are a stream, whatever its requests are."""

    def __aiter__(self) -> AsyncIterator[_Received_co]: ...


@asynccontextmanager
async def open_stream(call: _Call) -> AsyncGenerator[_Call, None]:
    """Cancels a call when it is left: a forgotten one keeps the server's handler alive."""
    try:
        yield call
    finally:
        call.cancel()


async def resume(
    open_call: Callable[[], Stream[_Message]],
    is_last: Callable[[_Message], bool],
    *,
    patience_s: float | None = None,
) -> AsyncGenerator[_Message, None]:
    """Yields a stream's messages to the last one, opening it again whenever it is cut.

    `open_call` asks for what follows the position that the caller has reached: all messages that
    were yielded have been consumed when it is called. Any failure but UNAVAILABLE is raised, and
    that one too when the stream stays cut for `patience_s`. Iterate under `contextlib.aclosing`.
    """
    cuts, cut_at = 0, 0.0
    while True:
        attempt = _Attempt(open_call)
        async with aclosing(attempt.messages()) as messages:
            async for message in messages:
                cuts = 0
                yield message
                if is_last(message):
                    return
        cut_at = cut_at if cuts else monotonic()
        wait_s = _wait_s(cuts)
        if patience_s is not None and monotonic() + wait_s > cut_at + patience_s:
            raise attempt.cause or ServiceUnavailable("the stream ended before its last message")
        await asyncio.sleep(wait_s)
        cuts += 1


class _Attempt(Generic[_Message]):
    """One opening of a stream, and what cut it."""

    def __init__(self, open_call: Callable[[], Stream[_Message]]) -> None:
        self._open_call = open_call
        self.cause: grpc.aio.AioRpcError | None = None

    async def messages(self) -> AsyncGenerator[_Message, None]:
        try:
            async with open_stream(self._open_call()) as call:
                async for message in call:
                    yield message
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            self.cause = error


def _wait_s(cuts: int) -> float:
    # Half of it by chance: those who lost the same server do not come back in the same moment.
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(cuts, 10))
    return longest * (1 + secrets.randbelow(1000) / 1000) / 2
