"""The server's end of a call: the context that a handler is given."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, NoReturn, cast

import grpc
import grpc.aio

from services.calls import Metadata
from services.in_process.exchange import EOF, Codec, Exchange, Status, codec
from services.interceptors import Handler


class ServerContext(grpc.aio.ServicerContext[Any, Any]):
    """A context as `grpc.aio` defines it, without what only a network has."""

    def __init__(self, exchange: Exchange, handler: Handler) -> None:
        self.decode = codec(cast("Codec | None", handler.request_deserializer))
        self._exchange = exchange
        self._encode = codec(cast("Codec | None", handler.response_serializer))
        self._code: grpc.StatusCode | None = None
        self._details = ""
        self._trailing: Metadata = ()

    def status(self) -> Status:
        """Return how the handler has set the call to end."""
        return Status(self._code or grpc.StatusCode.OK, self._details, self._trailing)

    async def requests(self) -> AsyncGenerator[Any]:
        """Yield what the client sends, to its end."""
        while (message := await self._exchange.requests.get()) is not None:
            yield self.decode(message)

    async def read(self) -> object:
        """Return the client's next message, or `grpc.aio.EOF`."""
        message = await self._exchange.requests.get()
        return EOF if message is None else self.decode(message)

    async def write(self, message: Any) -> None:
        """Send the client a message; the handler is cancelled when the call has ended."""
        if not await self._exchange.send(self._exchange.responses, self._encode(message)):
            raise asyncio.CancelledError

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> NoReturn:
        """End the handler, and the call with a status."""
        self._code, self._details, self._trailing = code, details, tuple(trailing_metadata)
        raise grpc.aio.AbortError(details)

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """End the handler, and the call with a status."""
        await self.abort(status.code, status.details, status.trailing_metadata or ())

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        """Send nothing: no client of this product reads it."""

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """Set what comes with the status."""
        self._trailing = tuple(trailing_metadata)

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the status."""
        self._code = code

    def set_details(self, details: str) -> None:
        """Set what the status says."""
        self._details = details

    def set_compression(self, compression: grpc.Compression) -> None:
        """Compress nothing."""

    def disable_next_message_compression(self) -> None:
        """Compress nothing."""

    def code(self) -> grpc.StatusCode:
        """Return the status that was set."""
        return self.status().code

    def details(self) -> str:
        """Return what the status says."""
        return self._details

    def trailing_metadata(self) -> Any:
        """Return what comes with the status."""
        return self._trailing

    def invocation_metadata(self) -> Any:
        """Return what the client has sent along."""
        return self._exchange.metadata

    def time_remaining(self) -> Any:
        """Return the seconds to the deadline, None when there is no deadline."""
        return self._exchange.remaining_s

    def peer(self) -> str:
        """Say where the client is."""
        return "in-process"

    def peer_identities(self) -> Iterable[bytes] | None:
        """Return nothing: a caller of this process proves itself by its token."""
        return None

    def peer_identity_key(self) -> str | None:
        """Return nothing: a caller of this process proves itself by its token."""
        return None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return nothing: a caller of this process proves itself by its token."""
        return {}
