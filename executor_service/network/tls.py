"""TLS towards a command, ended by the executor."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import TypeVar

from executor_service.network.requests import Sink, Source

_READ_BYTES = 64 * 1024
_T = TypeVar("_T")


class TlsServer:
    """A source and a sink of what is inside of TLS, over a source and a sink of what is outside."""

    def __init__(self, source: Source, sink: Sink, context: ssl.SSLContext) -> None:
        self._source = source
        self._sink = sink
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._flushing = asyncio.Lock()

    async def handshake(self) -> None:
        """Agree with the client; fails with OSError, as everything else here."""
        await self._do(self._tls.do_handshake)

    async def read(self, n: int) -> bytes:
        """At least one and at most n bytes; empty at the end."""
        try:
            return await self._do(lambda: self._tls.read(n))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    async def write(self, data: bytes) -> None:
        """Take all of data."""
        await self._do(lambda: self._tls.write(data))

    async def end(self) -> None:
        """Say that no more comes, without waiting for the client to say so too."""
        with contextlib.suppress(ssl.SSLError):  # it has not said so yet
            self._tls.unwrap()
        await self._flush()

    async def _do(self, operation: Callable[[], _T]) -> _T:
        while True:
            try:
                result = operation()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._source.read(_READ_BYTES)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        async with self._flushing:
            while data := self._outgoing.read():
                await self._sink.write(data)
