"""Channels to other services: created on first use, shared, and never closed by their users."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any, Self, cast

import grpc
import grpc.aio
from msgspec import Struct

from services.errors import FailedPrecondition, ServiceUnavailable
from services.lifecycle import Workers
from services.rpc import deadlines
from services.rpc.addresses import Address, TcpAddress, parse_address
from services.rpc.auth import Identity
from services.rpc.calls import (
    AUTHORIZATION_KEY,
    BEARER,
    METADATA_LIMITS,
    CallObserver,
    outgoing_ids,
)
from services.rpc.in_process import InProcessChannel, InProcessServer
from services.rpc.retries import service_config
from services.rpc.streams import SentStream, at_once
from services.rpc.tls import ClientTls, TlsFiles
from services.telemetry import tracing
from services.telemetry.tracing import Metadata

_OPTIONS: tuple[tuple[str, str | int], ...] = (
    ("grpc.keepalive_time_ms", deadlines.KEEPALIVE_INTERVAL_S * 1000),
    ("grpc.keepalive_timeout_ms", deadlines.KEEPALIVE_TIMEOUT_S * 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.dns_min_time_between_resolutions_ms", 2000),
    *METADATA_LIMITS,
    # A proxy in the environment is for the internet, not for calls between services.
    ("grpc.enable_http_proxy", 0),
)


class Channels:
    """The channels of one identity to the services, by address or within this process.

    A channel applies the default deadline to unary calls, sends the token and bound ids, retries
    idempotent calls, and follows changes of the `tls` files.
    """

    def __init__(
        self,
        identity: Identity,
        addresses: Mapping[str, Address | str | InProcessServer],
        *,
        tls: TlsFiles | None = None,
        token: str | None = None,
        observer: CallObserver | None = None,
    ) -> None:
        self._user_agent = f"hermes-{identity}"
        self._addresses = addresses
        self._files = tls
        self._tls: ClientTls | None = None
        metadata = ((AUTHORIZATION_KEY, BEARER + token),) if token is not None else ()
        self._extras = _Extras(metadata, observer, Workers())
        self._channels: dict[str, ManagedChannel] = {}

    async def __aenter__(self) -> Self:
        if self._files is not None:
            self._tls = await asyncio.to_thread(ClientTls, self._files)
            self._extras.workers.start("certificates", self._tls.watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def to(self, service: str) -> grpc.aio.Channel:
        """Return the channel to a configured service; raises FailedPrecondition."""
        channel = self._channels.get(service)
        if channel is None:
            if service not in self._addresses:
                raise FailedPrecondition(f"no address is configured for the {service} service")
            place = self._addresses[service]
            if isinstance(place, InProcessServer):
                channel = ManagedChannel(lambda _: InProcessChannel(place), None, self._extras)
            else:
                channel = self._channel(place)
            self._channels[service] = channel
        return cast("grpc.aio.Channel", channel)

    def at(self, endpoint: str) -> grpc.aio.Channel:
        """Return the channel to an endpoint named by a service, such as a sandbox's executor."""
        channel = self._channels.get(endpoint) or self._channel(endpoint)
        self._channels[endpoint] = channel
        return cast("grpc.aio.Channel", channel)

    async def close(self) -> None:
        async with self._extras.workers:
            for channel in self._channels.values():
                await channel.close()

    def _channel(self, place: Address | str) -> "ManagedChannel":
        address = parse_address(place) if isinstance(place, str) else place
        tls = self._current_tls if self._files and isinstance(address, TcpAddress) else None
        if tls is None and not address.is_local:
            # Anybody on the way could read the token.
            raise FailedPrecondition(f"{address} is on another machine and needs certificates")
        options = (
            *_OPTIONS,
            ("grpc.primary_user_agent", self._user_agent),
            ("grpc.service_config", service_config(balanced=isinstance(address, TcpAddress))),
        )
        if isinstance(address, TcpAddress) and address.server_name:
            options = (*options, ("grpc.ssl_target_name_override", address.server_name))

        def connect(tls: ClientTls | None) -> grpc.aio.Channel:
            if tls is None:
                return grpc.aio.insecure_channel(address.target, options)
            return grpc.aio.secure_channel(address.target, tls.credentials, options)

        return ManagedChannel(connect, tls, self._extras)

    def _current_tls(self) -> ClientTls:
        # On the first call, as stubs are made before the certificates are read.
        if self._tls is None:
            raise RuntimeError("channels with certificates are used inside their context")
        return self._tls


class _Extras(Struct, frozen=True):
    """Additions to each call of a channel, and the keeper of its old connections."""

    metadata: Metadata
    observer: CallObserver | None
    workers: Workers


class ManagedChannel:
    """A channel that connects on first use, and again between calls if its certificate changes."""

    def __init__(
        self,
        connect: Callable[[ClientTls | None], Any],
        tls: Callable[[], ClientTls] | None,
        extras: _Extras,
    ) -> None:
        self.extras = extras
        self._connect = connect
        self._tls = tls
        self._connection: Any = None
        self._generation = 0
        self._closed = False
        self.unary_unary = partial(_Method, self, "unary_unary", deadlines.DEFAULT_UNARY_S)
        self.unary_stream = partial(_Method, self, "unary_stream", None)
        self.stream_unary = partial(_Method, self, "stream_unary", None)
        self.stream_stream = partial(_Method, self, "stream_stream", None)

    def current(self) -> Any:
        tls = self._tls() if self._tls is not None else None
        if self._connection is not None and tls is not None and tls.generation != self._generation:
            self.extras.workers.start("retire a connection", _close(self._connection))
            self._connection = None
        if self._connection is None:
            if self._closed:
                raise ServiceUnavailable("this process has closed its connections")
            self._generation = 0 if tls is None else tls.generation
            self._connection = self._connect(tls)
        return self._connection

    async def close(self) -> None:
        """End the calls and reject new ones."""
        self._closed = True
        if self._connection is not None:
            await self._connection.close(None)
            self._connection = None


class _Method:
    def __init__(
        self,
        channel: ManagedChannel,
        kind: str,
        default_timeout_s: float | None,
        method: str,
        *codecs: Any,
        **registered: Any,
    ) -> None:
        """Take the arguments of generated code."""
        self._channel = channel
        self._kind = kind
        self._default_timeout_s = default_timeout_s
        self._method = method
        self._codecs = codecs
        self._registered = registered
        self._bound_to: Any = None
        self._call: Any = None

    def __call__(
        self,
        request: Any = None,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        **options: Any,
    ) -> Any:
        connection = self._channel.current()
        if connection is not self._bound_to:
            make = getattr(connection, self._kind)
            self._call = make(self._method, *self._codecs, **self._registered)
            self._bound_to = connection
        extras, span = self._channel.extras, tracing.calling(self._method)
        call = self._call(
            request,
            timeout=self._default_timeout_s if timeout is None else timeout,
            metadata=(
                *extras.metadata,
                *outgoing_ids(),
                *tracing.as_metadata(span),
                *(metadata or ()),
            ),
            **options,
        )
        if self._kind.startswith("stream") and not isinstance(connection, InProcessChannel):
            call = SentStream(call)
        call.add_done_callback(_finishing(span, extras.observer, self._method))
        return call


def _finishing(
    span: tracing.Span, observer: CallObserver | None, method: str
) -> Callable[[grpc.aio.Call], None]:
    """Count the call; return the callback that counts its end and ends its span."""
    started = monotonic()
    if observer is not None:
        observer.started(method)

    def done(call: grpc.aio.Call) -> None:
        code = at_once(call.code())
        if span is not tracing.NOTHING:
            tracing.end_call(span, code)
        if observer is not None:
            observer.observe(method, code.name, monotonic() - started)

    return done


async def _close(channel: grpc.aio.Channel) -> None:
    try:
        await channel.close(deadlines.RETIRE_GRACE_S)
    finally:
        await channel.close(None)
