"""The server-side handling of every call, in one pass to keep it cheap.

Authenticates and authorizes the caller, binds ids for the logs, maps errors to statuses, and
counts. When the server drains, streams end with DRAINING, so that clients move on at once.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from time import monotonic
from typing import Any, Self, TypeAlias, cast

import grpc
import grpc.aio

from services.errors import (
    DETAILS_KEY,
    UNREACHABLE,
    Draining,
    HermesError,
    Internal,
    PermissionDenied,
    Reason,
    ServiceUnavailable,
    Unauthenticated,
    to_status,
)
from services.rpc.auth import Gate
from services.rpc.calls import AUTHORIZATION_KEY, CallObserver, IncomingIds
from services.rpc.deadlines import STALLED_READER_S
from services.rpc.streams import write
from services.telemetry.logs import bind
from services.telemetry.tracing import NOTHING, Metadata, end_served, serving

_log = logging.getLogger(__name__)

_Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


KINDS: Mapping[tuple[bool, bool], str] = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}
"""The attribute of a handler, by whether its requests and its responses are streams."""

_DRAINING = "the service is shutting down; call another replica, or again"


class CallPipeline(grpc.aio.ServerInterceptor):  # pyright: ignore[reportMissingTypeArgument]
    """The one interceptor of a server."""

    def __init__(
        self,
        gate: Gate,
        observer: CallObserver | None = None,
        *,
        stalled_reader_s: float = STALLED_READER_S,
    ) -> None:
        self.gate = gate
        self.observer = observer
        self.ids = IncomingIds()
        self.draining = False
        self._stalled_reader_s = stalled_reader_s
        self._handlers: dict[str, Handler] = {}
        self._streams: set[_Call] = set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        method = handler_call_details.method
        wrapped = self._handlers.get(method)
        if wrapped is None:
            handler = await continuation(handler_call_details)
            if cast("Handler | None", handler) is None:
                # gRPC answers UNIMPLEMENTED. Not cached: a client can invent any number of names.
                return handler
            wrapped = self._handlers[method] = self.wrapped(method, handler)
        return wrapped

    def end_streams(self) -> None:
        """End all open and later streams with DRAINING."""
        self.draining = True
        for call in self._streams:
            call.end()

    def wrapped(self, method: str, handler: Handler) -> Handler:
        """Wrap a handler; a streaming one writes its messages itself."""
        kind = KINDS[handler.request_streaming, handler.response_streaming]
        make = getattr(grpc, f"{kind}_rpc_method_handler")
        behavior = getattr(handler, kind)
        if inspect.isasyncgenfunction(behavior):
            behavior = self._pumped(behavior)
        elif not inspect.iscoroutinefunction(behavior):
            behavior = _unimplemented

        async def serve(request: Any, context: _Context) -> Any:
            call = _Call(self, method, context)
            with bind(**call.ids), serving(method, call.metadata) as call.span:
                async with call:
                    call.admit()
                    if not handler.response_streaming:
                        return await behavior(request, context)
                    if self.draining:
                        raise Draining(_DRAINING)
                    self._streams.add(call)
                    try:
                        return await behavior(request, context)
                    finally:
                        self._streams.discard(call)

        return make(serve, handler.request_deserializer, handler.response_serializer)

    def _pumped(self, behavior: Callable[[Any, _Context], AsyncGenerator[Any, None]]) -> Any:
        async def pump(request: Any, context: _Context) -> None:
            # Close it now when the client has gone, not at garbage collection.
            async with aclosing(behavior(request, context)) as messages:
                async for message in messages:
                    await write(context, message, self._stalled_reader_s)

        return pump


class _Call:
    def __init__(self, pipeline: CallPipeline, method: str, context: _Context) -> None:
        self._pipeline = pipeline
        self._method = method
        self._context = context
        self.metadata = cast("Metadata", context.invocation_metadata() or ())
        self.span = NOTHING
        self._started = monotonic()
        self._task = asyncio.current_task()
        self._ended = False
        self.ids = pipeline.ids.read(self.metadata)
        self.ids["service"] = method.split(".", 2)[1]

    def admit(self) -> None:
        """Admit the call; raises Unauthenticated or PermissionDenied."""
        shown = next((value for key, value in self.metadata if key == AUTHORIZATION_KEY), None)
        authorization = shown if isinstance(shown, str) else None
        try:
            self._pipeline.gate.admit(self._method, self._context.auth_context(), authorization)
        except (Unauthenticated, PermissionDenied) as error:
            about = {"audit": "call_denied", "method": self._method, "reason": str(error)}
            _log.warning(
                "denied %s from %s: %s", self._method, self._context.peer(), error, extra=about
            )
            raise

    def end(self) -> None:
        """Stop the handler, and send the client elsewhere."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()

    async def __aenter__(self) -> Self:
        if self._pipeline.observer is not None:
            self._pipeline.observer.started(self._method)
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        failure = self._failure(error) if error is not None else None
        status = self._status(error, failure)
        end_served(self.span, status.name)
        if self._pipeline.observer is not None:
            self._pipeline.observer.observe(self._method, status.name, monotonic() - self._started)
        if failure is not None:
            await _abort(self._context, failure)

    def _failure(self, error: BaseException) -> HermesError | None:
        """Return the error for the client; None if it has been told or has gone."""
        if isinstance(error, HermesError):
            if error.reason is Reason.INTERNAL:
                _log.error("%s failed", self._method, exc_info=error)
            return error
        if isinstance(error, asyncio.CancelledError):
            return Draining(_DRAINING) if self._ended else None
        told_or_gone = isinstance(error, grpc.aio.AbortError | grpc.aio.InternalError)
        if told_or_gone or not isinstance(error, Exception):
            return None
        if isinstance(error, grpc.aio.AioRpcError) and error.code() in UNREACHABLE:
            _log.warning("%s: another service did not answer: %s", self._method, error.details())
            return ServiceUnavailable("another service, which this call needs, did not answer")
        request_id = self.ids["request_id"]
        _log.error("%s failed, request %s", self._method, request_id, exc_info=error)
        return Internal(
            f"internal error; the log has more under {request_id}",
            metadata={"request_id": request_id},
        )

    def _status(self, error: BaseException | None, failure: HermesError | None) -> grpc.StatusCode:
        if failure is not None:
            return failure.reason.status
        if error is None or isinstance(error, grpc.aio.AbortError):
            return cast("grpc.StatusCode | None", self._context.code()) or grpc.StatusCode.OK
        return grpc.StatusCode.CANCELLED


async def _abort(context: _Context, failure: HermesError) -> None:
    status = to_status(failure)
    details = ((DETAILS_KEY, status.SerializeToString()),)
    await context.abort(failure.reason.status, status.message, details)


async def _unimplemented(_request: Any, context: _Context) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this method is not served")
