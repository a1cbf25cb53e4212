"""The channel to the services of this process, for stubs."""

from collections.abc import AsyncIterable, Callable, Iterable
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from services.calls import Metadata
from services.in_process.client import ClientCall
from services.in_process.exchange import Codec, Exchange, codec
from services.in_process.server import InProcessServer

_Method = Callable[..., ClientCall]


class InProcessChannel(grpc.aio.Channel):
    """Looks to a stub like any channel; it is connected as long as the process lives."""

    def __init__(self, server: InProcessServer) -> None:
        self._server = server

    def unary_unary(
        self,
        method: str,
        request_serializer: Codec | None = None,
        response_deserializer: Codec | None = None,
        _registered_method: bool | None = False,
    ) -> Any:
        return self._one_request(method, request_serializer, response_deserializer)

    def stream_stream(
        self,
        method: str,
        request_serializer: Codec | None = None,
        response_deserializer: Codec | None = None,
        _registered_method: bool | None = False,
    ) -> Any:
        return self._many_requests(method, request_serializer, response_deserializer)

    # How many answers come is between the handler and whoever reads the call.
    unary_stream = unary_unary
    stream_unary = stream_stream

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.READY

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        raise NotImplementedError("it never changes")

    async def channel_ready(self) -> None:
        return

    async def close(self, grace: float | None = None) -> None:
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        return

    def _one_request(self, method: str, encode: Codec | None, decode: Codec | None) -> _Method:
        encode, decode = codec(encode), codec(decode)

        def call(
            request: Any,
            *,
            timeout: float | None = None,
            metadata: Metadata | None = None,
            **_options: Any,
        ) -> ClientCall:
            exchange = Exchange(method, metadata or (), timeout)
            exchange.ask(encode(request))
            self._server.serve(exchange)
            return ClientCall(exchange, encode, decode)

        return call

    def _many_requests(self, method: str, encode: Codec | None, decode: Codec | None) -> _Method:
        encode, decode = codec(encode), codec(decode)

        def call(
            requests: AsyncIterable[Any] | Iterable[Any] | None = None,
            *,
            timeout: float | None = None,
            metadata: Metadata | None = None,
            **_options: Any,
        ) -> ClientCall:
            exchange = Exchange(method, metadata or (), timeout)
            called = ClientCall(exchange, encode, decode)
            self._server.serve(exchange)
            if requests is not None and not called.done():
                feeding = self._server.run(f"requests of {method}", called.feed(requests))
                exchange.on_end.append(feeding.cancel)
            return called

        return call
