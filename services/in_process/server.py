"""The server's side: which methods there are, and the tasks that serve them."""

import asyncio
import random
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, TypeAlias, cast

import grpc
import grpc.aio

from services.in_process.context import ServerContext
from services.in_process.exchange import (
    BROKEN,
    NO_METHOD,
    NOT_SERVING,
    Exchange,
    Status,
)
from services.interceptors import KINDS, CallPipeline, Handler
from services.lifecycle import Workers
from services.retries import RETRY_WAITS_S, is_idempotent

_Generic: TypeAlias = "grpc.GenericRpcHandler[Any, Any]"


class InProcessServer:
    """Serves the calls of this process's own channels; components register with it as with any."""

    def __init__(self) -> None:
        self._generic: list[_Generic] = []
        self._services: dict[str, Mapping[str, Handler]] = {}
        self._handlers: dict[str, Handler] = {}
        self._serving = False
        self._around = Context()
        self._workers = Workers()

    # ---- as the server to which components register

    def add_generic_rpc_handlers(self, handlers: Sequence[_Generic]) -> None:
        """Keep what the socket's server finds a service's methods by."""
        self._generic += handlers

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, Handler]) -> None:
        """Keep a service's methods."""
        self._services[service] = methods

    # ---- for the process

    def share(self, server: grpc.aio.Server) -> None:
        """Let another server serve the same methods."""
        server.add_generic_rpc_handlers(self._generic)
        for service, methods in self._services.items():
            cast("Any", server).add_registered_method_handlers(service, methods)

    def start(self, pipeline: CallPipeline) -> None:
        """Take calls, each through the pipeline, in the context that this is called in."""
        self._around = copy_context()
        for service, methods in self._services.items():
            for name, handler in methods.items():
                method = f"/{service}/{name}"
                self._handlers[method] = pipeline.wrapped(method, handler)
        self._serving = True

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and cancel those that have not ended within the grace."""
        self._serving = False
        await self._workers.drain(grace_s)
        async with self._workers:
            pass

    # ---- for the channel

    def serve(self, exchange: Exchange) -> None:
        """Serve a call, in a task that knows nothing of its client."""
        if exchange.status is not None:
            return
        if not self._serving:
            exchange.end(NOT_SERVING)
        elif (handler := self._handlers.get(exchange.method)) is None:
            exchange.end(NO_METHOD)
        else:
            serving = self._serve(exchange, handler)
            exchange.serving = self._workers.start(exchange.method, serving, self._around.copy())

    def run(self, name: str, feeding: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what hands a client's requests over, beside the call."""
        return self._workers.start(name, feeding)

    async def _serve(self, exchange: Exchange, handler: Handler) -> None:
        status = BROKEN
        try:
            status = await _handled(exchange, handler)
            for wait_s in RETRY_WAITS_S if is_idempotent(exchange.method) else ():
                # The channel of a socket does the same, where the call would be safe to repeat.
                if status.code is not grpc.StatusCode.UNAVAILABLE:
                    break
                await asyncio.sleep(wait_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
                status = await _handled(exchange, handler)
        except asyncio.CancelledError:
            status = NOT_SERVING
            raise
        finally:
            exchange.end(status)


async def _handled(exchange: Exchange, handler: Handler) -> Status:
    """Run the method's handler once; returns how it has set the call to end."""
    context = ServerContext(exchange, handler)
    with suppress(grpc.aio.AbortError):
        if handler.request_streaming:
            request = context.requests()
        else:
            request = context.decode(exchange.request)
        # The pipeline makes every handler a coroutine that writes what it streams.
        behavior: Any = getattr(
            handler, KINDS[handler.request_streaming, handler.response_streaming]
        )
        if handler.response_streaming:
            await behavior(request, context)
        else:
            await context.write(await behavior(request, context))
    return context.status()
