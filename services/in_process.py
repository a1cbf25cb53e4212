"""Calls between the services of one process: what a socket does, without the socket.

The same stubs reach the same handlers through the same checks, and messages are encoded as on the
wire; only the transport between is two queues. Through the socket a turn takes 1.4 times as long.
"""

import asyncio
import random
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, NoReturn, Self, TypeAlias, cast

import grpc
import grpc.aio

from services.calls import Metadata
from services.interceptors import KINDS, CallPipeline, Handler
from services.lifecycle import Workers
from services.retries import RETRY_WAITS_S, is_idempotent

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""What gRPC takes by default: a longer message would fail as soon as the services are apart."""
WINDOW_MESSAGES = 16
"""A writer waits while so many of its messages have not been read."""

_EOF: object = cast("Any", grpc.aio).EOF
_Codec: TypeAlias = Callable[[Any], Any]
_Status: TypeAlias = tuple[grpc.StatusCode, str, Metadata]

_CANCELLED: _Status = (grpc.StatusCode.CANCELLED, "the client has cancelled the call", ())
_LATE: _Status = (grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline has passed", ())
_NOT_SERVING: _Status = (grpc.StatusCode.UNAVAILABLE, "the service does not take calls", ())
_NO_METHOD: _Status = (grpc.StatusCode.UNIMPLEMENTED, "this method is not served", ())
_BROKEN: _Status = (grpc.StatusCode.UNKNOWN, "the call ended without a status", ())
_TOO_LONG: _Status = (grpc.StatusCode.RESOURCE_EXHAUSTED, "a message is longer than 4 MiB", ())


class InProcessServer:
    """Serves this process's own channels; components register with it as with any server."""

    def __init__(self) -> None:
        self._generic: list[Any] = []
        self._services: dict[str, Mapping[str, Handler]] = {}
        self._handlers: dict[str, Handler] | None = None
        self._around = Context()
        self._workers = Workers()

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """Keep what the socket's server finds a service's methods by."""
        self._generic += handlers

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, Handler]) -> None:
        """Keep a service's methods."""
        self._services[service] = methods

    def share(self, server: grpc.aio.Server) -> None:
        """Let another server serve the same methods."""
        server.add_generic_rpc_handlers(self._generic)
        for service, methods in self._services.items():
            cast("Any", server).add_registered_method_handlers(service, methods)

    def start(self, pipeline: CallPipeline) -> None:
        """Take calls, each through the pipeline, in the context that this is called in."""
        self._around = copy_context()
        self._handlers = {
            (method := f"/{service}/{name}"): pipeline.wrapped(method, handler)
            for service, methods in self._services.items()
            for name, handler in methods.items()
        }

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and cancel those that have not ended within the grace."""
        self._handlers = None
        await self._workers.drain(grace_s)
        async with self._workers:
            pass

    def serve(self, call: "_Call", request: Any) -> None:
        """Serve a call, in a task that knows nothing of its client."""
        if self._handlers is None:
            call.end(_NOT_SERVING)
        elif (handler := self._handlers.get(call.method)) is None:
            call.end(_NO_METHOD)
        else:
            if not handler.request_streaming:
                request = call.encode(request)
                if len(request) > MAX_MESSAGE_BYTES:
                    call.end(_TOO_LONG)
                    return
            elif request is not None:
                call.tasks.append(self._workers.start(call.method, call.feed(request)))
            serving = _serve(call, handler, request)
            call.tasks.append(self._workers.start(call.method, serving, self._around.copy()))


class InProcessChannel:
    """Looks to a stub like a channel of gRPC; connected as long as the process lives."""

    def __init__(self, server: InProcessServer) -> None:
        self._server = server

    def unary_unary(
        self,
        method: str,
        request_serializer: _Codec | None = None,
        response_deserializer: _Codec | None = None,
        _registered_method: bool | None = False,
    ) -> Any:
        encode, decode = request_serializer or bytes, response_deserializer or bytes

        def call(
            request: Any = None,
            *,
            timeout: float | None = None,
            metadata: Metadata | None = None,
            **_options: Any,
        ) -> _Call:
            made = _Call(method, metadata or (), encode, decode)
            if timeout is not None:
                loop = asyncio.get_running_loop()
                made.deadline = loop.call_later(max(0.0, timeout), made.end, _LATE)
            self._server.serve(made, request)
            return made

        return call

    # Which of them are streams is between the handler and the reader of the call.
    unary_stream = stream_unary = stream_stream = unary_unary

    async def close(self, _grace: float | None = None) -> None:
        """Do nothing: the calls end with the server."""


class _Pipe:
    """Encoded messages from one end of a call to the other."""

    def __init__(self) -> None:
        self.ended = False
        self._messages = asyncio.Queue[bytes | None]()
        self._room = asyncio.Semaphore(WINDOW_MESSAGES)

    async def put(self, message: bytes) -> bool:
        await self._room.acquire()
        if not self.ended:
            self._messages.put_nowait(message)
        return not self.ended

    async def get(self) -> bytes | None:
        message = await self._messages.get()
        if message is None:
            self._messages.put_nowait(None)
        self._room.release()
        return message

    def end(self) -> None:
        self.ended = True
        self._messages.put_nowait(None)
        self._room.release()


class _Call:
    """The client's end of a call, with the methods of a call of gRPC that are used here."""

    def __init__(self, method: str, metadata: Metadata, encode: _Codec, decode: _Codec) -> None:
        self.method, self.metadata = method, metadata
        self.requests, self.responses = _Pipe(), _Pipe()
        self.tasks: list[asyncio.Task[None]] = []
        self.deadline: asyncio.TimerHandle | None = None
        self.status: _Status | None = None
        self.encode, self._decode = encode, decode
        self._ended = asyncio.Event()
        self._callbacks: list[Callable[[Any], None]] = []

    def __await__(self) -> Generator[Any, None, Any]:
        return self.read().__await__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if (message := await self.read()) is _EOF:
            raise StopAsyncIteration
        return message

    async def read(self) -> Any:
        try:
            message = await self.responses.get()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return _EOF if message is None and await self._is_ok() else self._decode(message)

    async def write(self, message: Any) -> None:
        if not await self.put(self.requests, self.encode(message)):
            if self.done():
                await self._is_ok()
            raise asyncio.InvalidStateError("the call takes no more requests")

    async def done_writing(self) -> None:
        self.requests.end()

    async def feed(self, requests: Any) -> None:
        """Send all that an iterator has; the call is cancelled when the iterator fails."""
        try:
            if isinstance(requests, AsyncIterable):
                async for message in cast("AsyncIterable[Any]", requests):
                    if not await self.put(self.requests, self.encode(message)):
                        return
            else:
                for message in requests:
                    if not await self.put(self.requests, self.encode(message)):
                        return
        except BaseException:
            self.cancel()
            raise
        self.requests.end()

    async def put(self, pipe: _Pipe, message: bytes) -> bool:
        if len(message) > MAX_MESSAGE_BYTES:
            self.end(_TOO_LONG)
        return await pipe.put(message)

    def end(self, status: _Status) -> bool:
        """End the call and what serves it; False if it has a status already."""
        if self.status is not None:
            return False
        self.status = status
        if self.deadline is not None:
            self.deadline.cancel()
        self.requests.end()
        self.responses.end()
        self._ended.set()
        for task in self.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)
        return True

    def cancel(self) -> bool:
        return self.end(_CANCELLED)

    def done(self) -> bool:
        return self.status is not None

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        if self.done():
            callback(self)
        else:
            self._callbacks.append(callback)

    async def code(self) -> grpc.StatusCode:
        return (await self._final())[0]

    async def details(self) -> str:
        return (await self._final())[1]

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata(*(await self._final())[2])

    async def _final(self) -> _Status:
        await self._ended.wait()
        assert self.status is not None
        return self.status

    async def _is_ok(self) -> bool:
        """True; raises what the call failed with."""
        code, details, trailing = status = await self._final()
        if status is _CANCELLED:
            raise asyncio.CancelledError
        if code is not grpc.StatusCode.OK:
            sent = grpc.aio.Metadata(*trailing)
            raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), sent, details, None)
        return True


class _Context:
    """The server's end of a call, with the methods of a context of gRPC that are used here."""

    def __init__(self, call: _Call, handler: Any) -> None:
        self.call = call
        self.decode = handler.request_deserializer or bytes
        self.encode = handler.response_serializer or bytes
        self.status: _Status = (grpc.StatusCode.OK, "", ())

    async def requests(self) -> AsyncGenerator[Any]:
        while (message := await self.read()) is not _EOF:
            yield message

    async def read(self) -> Any:
        message = await self.call.requests.get()
        return _EOF if message is None else self.decode(message)

    async def write(self, message: Any) -> None:
        if not await self.call.put(self.call.responses, self.encode(message)):
            raise asyncio.CancelledError

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> NoReturn:
        self.status = (code, details, tuple(trailing_metadata))
        raise grpc.aio.AbortError(details)

    def code(self) -> grpc.StatusCode:
        return self.status[0]

    def invocation_metadata(self) -> Metadata:
        return self.call.metadata

    def time_remaining(self) -> float | None:
        deadline = self.call.deadline
        return None if deadline is None else deadline.when() - asyncio.get_running_loop().time()

    def peer(self) -> str:
        return "in-process"

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        return {}  # a caller of this process proves itself by its token


async def _serve(call: _Call, handler: Handler, request: Any) -> None:
    status = _BROKEN
    # The channel of a socket repeats calls, too, where that is safe.
    waits_s = RETRY_WAITS_S if is_idempotent(call.method) else ()
    try:
        for wait_s in (*waits_s, None):
            status = await _answer(_Context(call, handler), handler, request)
            if status[0] is not grpc.StatusCode.UNAVAILABLE or wait_s is None:
                break
            await asyncio.sleep(wait_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
    except asyncio.CancelledError:
        status = _NOT_SERVING
        raise
    finally:
        call.end(status)


async def _answer(context: _Context, handler: Handler, request: Any) -> _Status:
    """Run the method's handler once; the pipeline makes it a coroutine that writes its stream."""
    behavior: Any = getattr(handler, KINDS[handler.request_streaming, handler.response_streaming])
    given = context.requests() if handler.request_streaming else context.decode(request)
    with suppress(grpc.aio.AbortError):
        answer = await behavior(given, context)
        if not handler.response_streaming:
            await context.write(answer)
    return context.status
