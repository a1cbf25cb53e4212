"""The gRPC server of a process, shared by its components."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self, cast

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from msgspec import Struct, field

from services.errors import FailedPrecondition, Internal
from services.lifecycle import (
    Failure,
    Shutdown,
    Workers,
    all_of,
    each_of,
    first_failure,
    share_interpreter,
)
from services.rpc import deadlines
from services.rpc.addresses import Address, TcpAddress
from services.rpc.auth import Authenticator, Gate, Tokens
from services.rpc.calls import METADATA_LIMITS, CallObserver
from services.rpc.in_process import InProcessServer
from services.rpc.interceptors import CallPipeline
from services.rpc.listeners import listen_on, reserved
from services.rpc.tls import TlsFiles
from services.runtime.component import Component
from services.telemetry.logs import bind

_log = logging.getLogger(__name__)

_OPTIONS: tuple[tuple[str, int], ...] = (
    # Otherwise a second process would silently share the port.
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", deadlines.MIN_PING_INTERVAL_S * 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", deadlines.SERVER_KEEPALIVE_INTERVAL_S * 1000),
    ("grpc.keepalive_timeout_ms", deadlines.KEEPALIVE_TIMEOUT_S * 1000),
    ("grpc.http2.max_pings_without_data", 0),
    *METADATA_LIMITS,
)
_TCP_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_connection_age_ms", deadlines.CONNECTION_AGE_S * 1000),
    ("grpc.max_connection_age_grace_ms", deadlines.CONNECTION_AGE_GRACE_S * 1000),
)


class ListenOptions(Struct, frozen=True):
    """The addresses of a server, and how callers authenticate."""

    addresses: tuple[Address, ...]
    tls: TlsFiles | None = None
    tokens: Tokens | None = None
    in_process: InProcessServer = field(default_factory=InProcessServer)
    """Serves calls between components of this process."""
    before: Callable[[], None] | None = None
    """Called in a thread before clients can connect, for instance to write the token file."""


class ComponentFailed(Internal):
    """A component's background work failed; the message is one line."""


class Server:
    """The server of a process: enter it to reserve its addresses, then `start` and `stop` it."""

    def __init__(
        self,
        components: Sequence[Component],
        listen: ListenOptions,
        observer: CallObserver | None = None,
    ) -> None:
        _check(listen)
        gate = Gate(Authenticator(listen.tokens), [component.policy for component in components])
        self._components = components
        self._listen = listen
        self._pipeline = CallPipeline(gate, observer)
        # The package's type stubs lack its asyncio part.
        self._health: Any = cast("Any", health).aio.HealthServicer()
        self._stack = AsyncExitStack()
        self._addresses: tuple[Address, ...] = ()
        self._server: grpc.aio.Server | None = None

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self._addresses

    async def __aenter__(self) -> Self:
        where = self._listen.addresses
        async with AsyncExitStack() as held:
            for address in where:
                await held.enter_async_context(reserved(address))
            if self._listen.before is not None:
                await asyncio.to_thread(self._listen.before)
            tcp = any(isinstance(address, TcpAddress) for address in where)
            options = (*_OPTIONS, *_TCP_OPTIONS) if tcp else _OPTIONS
            self._server = grpc.aio.server(interceptors=(self._pipeline,), options=options)
            held.push_async_callback(self.stop, 0.0)
            self._addresses = tuple(
                [await listen_on(self._server, address, self._listen.tls) for address in where]
            )
            self._stack = held.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start(self) -> None:
        """Accept calls from now on; enter the components before."""
        server, in_process = self._open(), self._listen.in_process
        registry = cast("grpc.aio.Server", in_process)
        for component in self._components:
            component.register(registry)
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, registry)
        in_process.share(server)
        await server.start()
        in_process.start(self._pipeline)
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)

    async def announce_stop(self) -> None:
        """Answer probes with NOT_SERVING, so that no new work is sent here."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_s: float = deadlines.STOP_GRACE_S) -> None:
        """Accept no more calls, end the streams, and give unary calls the grace period."""
        self._pipeline.end_streams()
        await each_of((self._open().stop(grace_s), self._listen.in_process.stop(grace_s)))

    async def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for name in ("", *(component.name for component in self._components)):
            await self._health.set(name, status)

    def _open(self) -> grpc.aio.Server:
        if self._server is None:
            raise RuntimeError("the server is not entered")
        return self._server


async def serve(
    components: Sequence[Component],
    listen: ListenOptions,
    *,
    observer: CallObserver | None = None,
    ready: Callable[[tuple[Address, ...]], Awaitable[None]] | None = None,
    shutdown: Shutdown | None = None,
) -> None:
    """Run components until a signal, then drain them; raises ComponentFailed and ListenFailed."""
    share_interpreter()
    server = Server(components, listen, observer)
    async with AsyncExitStack() as stack:
        stop = await stack.enter_async_context(shutdown or Shutdown())
        await stack.enter_async_context(server)
        # Side by side: the executor waits for other programs meanwhile.
        await all_of(map(stack.enter_async_context, components))
        failures: list[Failure] = []

        def failed(failure: Failure) -> None:
            failures.append(failure)
            stop.request(f"{failure.name} failed")

        async with Workers(failed) as workers:
            await server.start()
            for component in components:
                with bind(service=component.name):
                    workers.start(component.name, component.run())
            if ready is not None:
                await ready(server.addresses)
            _log.info("stopping: %s", await stop.wait())
            await stop.drain(
                {
                    "health": server.announce_stop,
                    "components": partial(_drain, components),
                    "server": server.stop,
                }
            )
        if failures:
            first = failures[0]
            why = first_failure(first.error)
            raise ComponentFailed(f"{first.name} failed: {why}") from first.error


async def _drain(components: Sequence[Component]) -> None:
    # Concurrently: one that fails or hangs does not delay the others.
    async with Workers() as workers:
        for component in components:
            workers.start(f"drain of {component.name}", component.drain())
        if late := await workers.drain(deadlines.DRAIN_S):
            _log.warning("not drained within %g s: %s", deadlines.DRAIN_S, ", ".join(late))


def _check(listen: ListenOptions) -> None:
    for address in listen.addresses:
        if isinstance(address, TcpAddress) and listen.tls is not None:
            continue
        if not address.is_local:
            raise FailedPrecondition(
                f"{address} can be reached from other machines and needs certificates; "
                "make them with `hermes certs`"
            )
        if not listen.tokens:
            raise FailedPrecondition(
                f"{address} needs certificates or tokens: make certificates with `hermes certs "
                "init` and give each service a host:port, or start all together with `hermes up`"
            )
