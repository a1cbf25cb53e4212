"""A pooler of PostgreSQL connections that gives one to a client for a transaction only."""

import asyncio
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

_SSL_REQUEST = 80877103
_IDLE = b"I"


class Pooler:
    """Talks protocol 3 to clients and to a server that trusts them."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._free: list[tuple[StreamReader, StreamWriter]] = []
        self._opened: list[StreamWriter] = []

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one client to its end."""
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        startup = await _untyped(reader)
        if struct.unpack("!I", startup[4:8])[0] == _SSL_REQUEST:
            writer.write(b"N")
            startup = await _untyped(reader)
        greeting, server = await self._connect(startup)
        self._free.append(server)
        writer.write(greeting)
        held: tuple[StreamReader, StreamWriter] | None = None
        while (message := await _typed(reader))[:1] != b"X":
            if held is None:
                held = self._free.pop() if self._free else (await self._connect(startup))[1]
            held[1].write(message)
            if message[:1] in (b"Q", b"S") and await _answer(held[0], writer) == _IDLE:
                self._free.append(held)
                held = None

    async def _connect(self, startup: bytes) -> tuple[bytes, tuple[StreamReader, StreamWriter]]:
        """Return the server's greeting and the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._opened.append(writer)
        writer.write(startup)
        greeting = b""
        while (message := await _typed(reader))[:1] != b"Z":
            greeting += message
        return greeting + message, (reader, writer)

    def close(self) -> None:
        """Close the connections to the server."""
        for writer in self._opened:
            writer.close()


async def _answer(server: StreamReader, client: StreamWriter) -> bytes:
    """Pass on an answer to its end; return the state of the transaction."""
    while True:
        message = await _typed(server)
        client.write(message)
        if message[:1] == b"Z":
            return message[-1:]


async def _untyped(reader: StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack("!I", length)[0] - 4)


async def _typed(reader: StreamReader) -> bytes:
    return await reader.readexactly(1) + await _untyped(reader)


@asynccontextmanager
async def pooler(server_port: int) -> AsyncGenerator[int]:
    """Run a pooler in front of a server; its port."""
    pool = Pooler(server_port)
    async with await asyncio.start_server(pool.serve, "127.0.0.1", 0) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            pool.close()
