"""Calls between services of one process, without a socket.

The same stubs reach the same handlers through the same checks, with encoded messages, but over
queues. Through the socket a turn takes 1.4 times as long.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, NoReturn, Self, TypeAlias, cast

import grpc
import grpc.aio

from services.lifecycle import Workers
from services.rpc.interceptors import KINDS, CallPipeline, Handler
from services.rpc.retries import RETRY_WAITS_S, is_idempotent
from services.telemetry.tracing import Metadata

WINDOW_MESSAGES = 16
"""A server waits while this many of its messages are unread."""

_Status: TypeAlias = tuple[grpc.StatusCode, str, Metadata]

_CANCELLED: _Status = (grpc.StatusCode.CANCELLED, "the client has cancelled the call", ())
_LATE: _Status = (grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline has passed", ())
_NOT_SERVING: _Status = (grpc.StatusCode.UNAVAILABLE, "the service does not take calls", ())
_NO_METHOD: _Status = (grpc.StatusCode.UNIMPLEMENTED, "this method is not served", ())


class InProcessServer:
    """Serves this process's own channels; components register with it as with any server."""

    def __init__(self) -> None:
        self._generic: list[Any] = []
        self._services: dict[str, Mapping[str, Handler]] = {}
        self._handlers: dict[str, Handler] | None = None
        self._around = Context()
        self._workers = Workers()
        # The method that components call to register.
        self.add_generic_rpc_handlers = self._generic.extend
        self.add_registered_method_handlers = self._services.__setitem__

    def share(self, server: grpc.aio.Server) -> None:
        """Let another server serve the same methods."""
        server.add_generic_rpc_handlers(self._generic)
        for service, methods in self._services.items():
            cast("Any", server).add_registered_method_handlers(service, methods)

    def start(self, pipeline: CallPipeline) -> None:
        """Accept calls, each through the pipeline, in the caller's context."""
        self._around = copy_context()
        self._handlers = {
            (method := f"/{service}/{name}"): pipeline.wrapped(method, handler)
            for service, methods in self._services.items()
            for name, handler in methods.items()
        }

    async def stop(self, grace_s: float) -> None:
        """Reject new calls, and cancel those that have not ended within the grace."""
        self._handlers = None
        await self._workers.drain(grace_s)
        async with self._workers:
            pass

    def serve(self, call: "_Call", request: Any) -> None:
        """Serve a call, in a task with its own context."""
        if self._handlers is None:
            call.end(_NOT_SERVING)
        elif (handler := self._handlers.get(call.method)) is None:
            call.end(_NO_METHOD)
        else:
            sent = request if handler.request_streaming else call.encode(request)
            serving = call.serve(handler, sent)
            call.serving = self._workers.start(call.method, serving, self._around.copy())


class InProcessChannel:
    """A stand-in for a gRPC channel, connected for the life of the process."""

    def __init__(self, server: InProcessServer) -> None:
        self._server = server

    def unary_unary(
        self,
        method: str,
        request_serializer: Any,
        response_deserializer: Any,
        _registered_method: bool | None = False,
    ) -> Any:
        """Return the callable of a method, whichever sides are streams."""

        def call(
            request: Any,
            *,
            timeout: float | None = None,
            metadata: Metadata | None = None,
            **_options: Any,
        ) -> _Call:
            codecs = (request_serializer, response_deserializer)
            made = _Call(method, metadata or (), *codecs, timeout)
            self._server.serve(made, request)
            return made

        return call

    unary_stream = stream_unary = stream_stream = unary_unary

    async def close(self, _grace: float | None = None) -> None:
        """Do nothing: the calls end with the server."""


class _Call:
    """The client's end of a call, with the used part of gRPC's interface."""

    def __init__(
        self, method: str, metadata: Metadata, encode: Any, decode: Any, timeout_s: float | None
    ) -> None:
        self.method, self.metadata, self.encode, self._decode = method, metadata, encode, decode
        self.serving: asyncio.Task[None] | None = None
        self._responses = asyncio.Queue[bytes | None]()  # None: the end
        self._room = asyncio.Semaphore(WINDOW_MESSAGES)
        loop = asyncio.get_running_loop()
        self._status: asyncio.Future[_Status] = loop.create_future()
        self.deadline = None if timeout_s is None else loop.call_later(timeout_s, self.end, _LATE)

    def __await__(self) -> Generator[Any, None, Any]:
        return self.__anext__().__await__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            message = await self._responses.get()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if message is not None:
            self._room.release()
            return self._decode(message)
        self._responses.put_nowait(None)
        code, details, trailing = status = self._status.result()
        if status is _CANCELLED:
            raise asyncio.CancelledError
        if code is not grpc.StatusCode.OK:
            sent = grpc.aio.Metadata(*trailing)
            raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), sent, details, None)
        raise StopAsyncIteration

    def cancel(self) -> bool:
        return self.end(_CANCELLED)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._status.add_done_callback(lambda _: callback(self))

    async def code(self) -> grpc.StatusCode:
        return (await asyncio.shield(self._status))[0]

    # ---- at the server

    def end(self, status: _Status) -> bool:
        """End the call and its handler; False if it has a status already."""
        if self._status.done():
            return False
        self._status.set_result(status)
        if self.deadline is not None:
            self.deadline.cancel()
        self._responses.put_nowait(None)
        if self.serving is not None and self.serving is not asyncio.current_task():
            self.serving.cancel()
        return True

    async def write(self, message: bytes) -> None:
        await self._room.acquire()
        if self._status.done():
            raise asyncio.CancelledError
        self._responses.put_nowait(message)

    async def serve(self, handler: Handler, sent: Any) -> None:
        status = _NOT_SERVING
        # Retry where safe, like the channel of a socket.
        waits_s = RETRY_WAITS_S if is_idempotent(self.method) else ()
        try:
            for wait_s in (*waits_s, None):
                context = _Context(self, handler, sent)
                with suppress(grpc.aio.AbortError):
                    await context.answer()
                status = context.status
                if status[0] is not grpc.StatusCode.UNAVAILABLE or wait_s is None:
                    break
                await asyncio.sleep(wait_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
        finally:
            self.end(status)


class _Context:
    """The server's end of a call, with the used part of gRPC's interface."""

    def __init__(self, call: _Call, handler: Any, sent: Any) -> None:
        self._call, self._handler, self._sent = call, handler, sent
        self.status: _Status = (grpc.StatusCode.OK, "", ())

    async def answer(self) -> None:
        """Run the method's handler; with the pipeline, it is a coroutine that writes its stream."""
        streams = self._handler.request_streaming, self._handler.response_streaming
        request = self._requests() if streams[0] else self._decode(self._sent)
        answer = await getattr(self._handler, KINDS[streams])(request, self)
        if not streams[1]:
            await self.write(answer)

    async def _requests(self) -> AsyncIterator[Any]:
        async for message in self._sent:
            yield self._decode(self._call.encode(message))

    def _decode(self, message: bytes) -> Any:
        return self._handler.request_deserializer(message)

    async def write(self, message: Any) -> None:
        await self._call.write(self._handler.response_serializer(message))

    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        self.status = (code, details, tuple(trailing_metadata))
        raise grpc.aio.AbortError(details)

    def code(self) -> grpc.StatusCode:
        return self.status[0]

    def invocation_metadata(self) -> Metadata:
        return self._call.metadata

    def time_remaining(self) -> float | None:
        now, deadline = asyncio.get_running_loop().time(), self._call.deadline
        return None if deadline is None else deadline.when() - now

    def peer(self) -> str:
        return "in-process"

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        return {}  # callers within the process prove themselves by their token
