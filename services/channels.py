"""Channels to the other services: made when first used, shared, and never closed by their users."""

from collections.abc import Callable, Mapping
from typing import Self, cast

import grpc
import grpc.aio

from services import deadlines
from services.addresses import Address, TcpAddress, parse_address
from services.auth import Identity
from services.calls import AUTHORIZATION_KEY, BEARER, METADATA_LIMITS, CallObserver
from services.errors import FailedPrecondition
from services.in_process import InProcessChannel, InProcessServer
from services.lifecycle import Workers
from services.managed_channel import CallExtras, Connection, ManagedChannel
from services.retries import service_config
from services.tls import ClientTls, TlsFiles

MAX_LEASED_CONNECTIONS = 64
"""How many endpoints that other services named may stay connected at one time."""

_OPTIONS: tuple[tuple[str, str | int], ...] = (
    ("grpc.keepalive_time_ms", deadlines.KEEPALIVE_INTERVAL_S * 1000),
    ("grpc.keepalive_timeout_ms", deadlines.KEEPALIVE_TIMEOUT_S * 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.dns_min_time_between_resolutions_ms", 2000),
    *METADATA_LIMITS,
    # A proxy of the environment is for the internet, not for the services' own calls.
    ("grpc.enable_http_proxy", 0),
)


class Channels:
    """The channels of one identity, to each service by its address or within this process.

    A channel applies the default deadline to unary calls, sends the token and the ids of the work,
    repeats idempotent calls that a service could not take, and follows the files of `tls`.
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
        self._extras = CallExtras(metadata, observer)
        self._workers = Workers()
        self._named: dict[str, ManagedChannel] = {}
        self._leased: dict[str, ManagedChannel] = {}

    async def __aenter__(self) -> Self:
        if self._files is not None:
            self._tls = await ClientTls.load(self._files)
            self._workers.start("certificates", self._tls.watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def to(self, service: str) -> grpc.aio.Channel:
        """Returns the channel to a configured service; fails with FailedPrecondition."""
        channel = self._named.get(service)
        if channel is None:
            if service not in self._addresses:
                raise FailedPrecondition(f"no address is configured for the {service} service")
            place = self._addresses[service]
            if isinstance(place, InProcessServer):
                channel = ManagedChannel(_Beside(place), self._extras)
            else:
                channel = self._channel(place)
            self._named[service] = channel
        return channel

    def at(self, endpoint: str) -> grpc.aio.Channel:
        """Returns the channel to an endpoint that a service named, such as a sandbox's executor."""
        channel = self._leased.pop(endpoint, None) or self._channel(endpoint)
        connected = [other for other in self._leased.values() if other.connected]
        for other in connected[: max(0, len(connected) + 1 - MAX_LEASED_CONNECTIONS)]:
            other.release()
        # Behind the others: the connections that were asked for last are the ones that stay.
        self._leased[endpoint] = channel
        return channel

    async def close(self) -> None:
        """Cancels the calls to other processes and closes every channel."""
        async with self._workers:
            for channel in (*self._named.values(), *self._leased.values()):
                await channel.close()

    def _channel(self, place: Address | str) -> ManagedChannel:
        address = parse_address(place) if isinstance(place, str) else place
        tls = self._current_tls if self._files and isinstance(address, TcpAddress) else None
        if tls is None and not address.is_local:
            # Whoever is on the way could read the token.
            raise FailedPrecondition(f"{address} is on another machine and needs certificates")
        options = (
            *_OPTIONS,
            ("grpc.primary_user_agent", self._user_agent),
            ("grpc.service_config", service_config(balanced=isinstance(address, TcpAddress))),
        )
        if isinstance(address, TcpAddress) and address.server_name:
            options = (*options, ("grpc.ssl_target_name_override", address.server_name))
        return ManagedChannel(_Dialer(address, options, tls, self._workers), self._extras)

    def _current_tls(self) -> ClientTls:
        # Asked for with the first call, as stubs are made before the certificates are read.
        if self._tls is None:
            raise RuntimeError("channels with certificates are used inside their context")
        return self._tls


class _Beside:
    """The way to services of this process."""

    def __init__(self, server: InProcessServer) -> None:
        self._channel = cast("grpc.aio.Channel", InProcessChannel(server))

    def generation(self) -> int:
        return 0

    def connect(self) -> Connection:
        return Connection(self._channel, 0)

    def retire(self, channel: grpc.aio.Channel) -> None:
        pass


class _Dialer:
    """Makes and unmakes the connections to one address."""

    def __init__(
        self,
        address: Address,
        options: tuple[tuple[str, str | int], ...],
        tls: Callable[[], ClientTls] | None,
        workers: Workers,
    ) -> None:
        self._address = address
        self._options = options
        self._tls = tls
        self._workers = workers

    def generation(self) -> int:
        return self._tls().generation if self._tls is not None else 0

    def connect(self) -> Connection:
        target, options = self._address.target, self._options
        if self._tls is None:
            return Connection(grpc.aio.insecure_channel(target, options), 0)
        tls = self._tls()
        channel = grpc.aio.secure_channel(target, tls.credentials, options)
        return Connection(channel, tls.generation)

    def retire(self, channel: grpc.aio.Channel) -> None:
        self._workers.start(f"retire {self._address}", _close(channel))


async def _close(channel: grpc.aio.Channel) -> None:
    try:
        await channel.close(deadlines.RETIRE_GRACE_S)
    finally:
        await channel.close(None)
