"""Client-side streams: cancelled when left, and resumed after interruptions."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Generic, Protocol, Self, TypeVar

import grpc
import grpc.aio

from services.errors import WRITTEN_TOO_LATE, ServiceUnavailable, Unavailable
from services.rpc.deadlines import STALLED_READER_S

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0


class Cancellable(Protocol):
    """A gRPC call."""

    def cancel(self) -> bool: ...


_Call = TypeVar("_Call", bound=Cancellable)
_Message = TypeVar("_Message")
_Received_co = TypeVar("_Received_co", covariant=True)


class Stream(Cancellable, Protocol[_Received_co]):
    """A call with streamed responses."""

    def __aiter__(self) -> AsyncIterator[_Received_co]: ...


@asynccontextmanager
async def open_stream(call: _Call) -> AsyncGenerator[_Call, None]:
    """Cancel a call when it is left: a forgotten one keeps the server's handler alive."""
    try:
        yield call
    finally:
        call.cancel()


async def resume(
    open_call: Callable[[], Stream[_Message]],
    is_last: Callable[[_Message], bool],
    *,
    patience_s: float | None = None,
    passes: Callable[[grpc.aio.AioRpcError], bool] = lambda error: (
        error.code() is grpc.StatusCode.UNAVAILABLE
    ),
) -> AsyncGenerator[_Message, None]:
    """Yield a stream's messages to the last one, reopening it whenever it is cut.

    `open_call` asks for what follows the caller's position; all yielded messages have been consumed
    then. Raises permanent failures, and any failure after `patience_s`. Iterate under
    `contextlib.aclosing`.
    """
    cuts, cut_at = 0, 0.0
    while True:
        cause, call = None, open_call()
        try:
            async for message in call:
                cuts = 0
                yield message
                if is_last(message):
                    return
        except grpc.aio.AioRpcError as error:
            if not passes(error):
                raise
            cause = error
        finally:
            call.cancel()
        cut_at = cut_at if cuts else monotonic()
        wait_s = _wait_s(cuts)
        if patience_s is not None and monotonic() + wait_s > cut_at + patience_s:
            raise cause or ServiceUnavailable("the stream ended before its last message")
        await asyncio.sleep(wait_s)
        cuts += 1


class Requests(Generic[_Message]):
    """The requests of a call, sent in order until `end`."""

    def __init__(self, first: Iterable[_Message] = ()) -> None:
        self._queue: asyncio.Queue[_Message | None] = asyncio.Queue()
        for request in first:
            self.send(request)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Message:
        request = await self._queue.get()
        if request is None:
            raise StopAsyncIteration
        return request

    def send(self, request: _Message) -> None:
        """Send one more; it is lost if the call ends first."""
        self._queue.put_nowait(request)

    def end(self) -> None:
        """End the requests; gRPC waits for this even after the call."""
        self._queue.put_nowait(None)


def _wait_s(cuts: int) -> float:
    # Half random, so that clients of a lost server do not return all at once.
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(cuts, 10))
    return longest * (1 + secrets.randbelow(1000) / 1000) / 2


_T = TypeVar("_T")

_LOOKS, _LOOK_AFTER_S = 100, 0.01


class SentStream:
    """A call with streamed requests, and one response or a stream.

    It fails with the server's status, which gRPC may replace by its own error: of two statuses,
    callbacks get the first, and the last one stays.
    """

    def __init__(self, call: Any) -> None:
        self._call = call
        self._answers: AsyncIterator[Any] | None = None
        self._first: grpc.aio.AioRpcError | None = None
        call.add_done_callback(self._note)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._meant(self._call).__await__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._answers is None:
            self._answers = aiter(self._call)
        return await self._meant(anext(self._answers))

    def _note(self, _: object) -> None:
        self._first = self._status()

    def _status(self) -> grpc.aio.AioRpcError:
        call, metadata = self._call, grpc.aio.Metadata()
        code, trailing = at_once(call.code()), at_once(call.trailing_metadata())
        return grpc.aio.AioRpcError(code, metadata, trailing, at_once(call.details()), None)

    async def _meant(self, answer: Any) -> Any:
        try:
            return await answer
        except grpc.aio.AioRpcError as error:
            ended = self._first if error.details() == WRITTEN_TOO_LATE else error
            for _ in range(_LOOKS):
                if ended is not None and ended.details() != WRITTEN_TOO_LATE:
                    break
                await asyncio.sleep(_LOOK_AFTER_S)
                ended = self._status()
            if ended is None or ended.code() is grpc.StatusCode.OK:
                raise  # unread messages are lost
        raise ended


def at_once(coro: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that never waits, such as one of a finished call."""
    try:
        coro.send(None)
    except StopIteration as finished:
        return finished.value
    coro.close()
    raise asyncio.InvalidStateError("the call has not ended")


async def write(
    context: grpc.aio.ServicerContext[Any, Any], message: Any, limit_s: float = STALLED_READER_S
) -> None:
    """Send a message once the client has room for it; fails if the client stops reading."""
    try:
        async with asyncio.timeout(limit_s):
            await context.write(message)
    except TimeoutError:
        raise Unavailable("the client has stopped reading") from None
