"""A channel that adds what every call needs and connects anew when its certificate changes."""

from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any, Protocol, Self

import grpc
import grpc.aio
from msgspec import Struct

from services import tracing
from services.calls import CallObserver, Metadata, outgoing_ids
from services.deadlines import DEFAULT_UNARY_S
from services.errors import ServiceUnavailable
from services.streams import SentStream, at_once


class Connection(Struct, frozen=True):
    """An open channel of gRPC, and with which generation of the certificate it was opened."""

    channel: grpc.aio.Channel
    generation: int


class Dialer(Protocol):
    """Makes and unmakes the connections to one address."""

    def generation(self) -> int:
        """Returns how often the certificate has changed."""
        ...

    def connect(self) -> Connection:
        """Opens a connection."""
        ...

    def retire(self, channel: grpc.aio.Channel) -> None:
        """Closes a channel once its calls have ended."""
        ...


class CallExtras(Struct, frozen=True):
    """What is added to each call of a channel."""

    metadata: Metadata = ()
    observer: CallObserver | None = None


class ManagedChannel(grpc.aio.Channel):
    """Looks to a stub like any channel; connects when first used and reconnects between calls."""

    def __init__(self, dialer: Dialer, extras: CallExtras) -> None:
        self.extras = extras
        self._dialer = dialer
        self._connection: Connection | None = None
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    def current(self) -> grpc.aio.Channel:
        """Returns the connection for the next call."""
        connection = self._connection
        if connection is None:
            if self._closed:
                raise ServiceUnavailable("this process has closed its connections")
            connection = self._connection = self._dialer.connect()
        elif connection.generation != self._dialer.generation():
            self._dialer.retire(connection.channel)
            connection = self._connection = self._dialer.connect()
        return connection.channel

    def release(self) -> None:
        """Gives the connection up once its calls have ended; the next call connects again."""
        if self._connection is not None:
            self._dialer.retire(self._connection.channel)
            self._connection = None

    def unary_unary(self, *signature: Any, **registered: Any) -> Any:
        return _Method(self, "unary_unary", signature, registered, DEFAULT_UNARY_S)

    def unary_stream(self, *signature: Any, **registered: Any) -> Any:
        return _Method(self, "unary_stream", signature, registered)

    def stream_unary(self, *signature: Any, **registered: Any) -> Any:
        return _Method(self, "stream_unary", signature, registered)

    def stream_stream(self, *signature: Any, **registered: Any) -> Any:
        return _Method(self, "stream_stream", signature, registered)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self.current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self.current().wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self.current().channel_ready()

    async def close(self, grace: float | None = None) -> None:
        self._closed = True
        if self._connection is not None:
            await self._connection.channel.close(grace)
            self._connection = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Method:
    """One method of a stub, bound to the connection of the moment."""

    def __init__(
        self,
        channel: ManagedChannel,
        kind: str,
        signature: tuple[Any, ...],
        registered: Mapping[str, Any],
        default_timeout_s: float | None = None,
    ) -> None:
        """Take what generated code gives: the method's name, how to write and read its messages."""
        self._channel = channel
        self._kind = kind
        self._signature = signature
        self._registered = registered
        self._method: str = signature[0]
        self._default_timeout_s = default_timeout_s
        self._bound_to: grpc.aio.Channel | None = None
        self._call: Callable[..., Any] = _unbound

    def __call__(
        self,
        request: Any = None,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        **options: Any,
    ) -> Any:
        connection = self._channel.current()
        if connection is not self._bound_to:
            self._call = getattr(connection, self._kind)(*self._signature, **self._registered)
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
        if self._kind.startswith("stream"):
            call = SentStream(call)
        if span is not tracing.NOTHING:
            call.add_done_callback(_ending(span))
        if extras.observer is not None:
            call.add_done_callback(_counted(extras.observer, self._method))
        return call


def _ending(span: tracing.Span) -> Callable[[grpc.aio.Call], None]:
    """Return what ends the span of a call when it is done."""
    return lambda call: tracing.end_call(span, at_once(call.code()))


def _counted(observer: CallObserver, method: str) -> Callable[[grpc.aio.Call], None]:
    """Count a call now, and return what counts it again when it is done."""
    observer.started(method)
    started = monotonic()

    def done(call: grpc.aio.Call) -> None:
        observer.observe(method, at_once(call.code()).name, monotonic() - started)

    return done


def _unbound(*_arguments: object, **_options: object) -> Awaitable[object]:
    raise AssertionError("a method is bound before it is called")
