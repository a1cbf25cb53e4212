"""Connections between two parts that can be cut, slow, or dead without either of them knowing."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import TypeAlias

from services.rpc.addresses import TcpAddress, UnixAddress

_Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

DELAY_S = 0.4
_PIECE_BYTES = 65_536


class Fault(StrEnum):
    """What may be wrong with a link."""

    CUT = "cut"
    """All connections end at once, and there are no new ones."""
    DELAY = "delay"
    """Every piece arrives later."""
    HALF_OPEN = "half-open"
    """Nothing arrives, and nobody is told; whoever was cut off so is told when it is over."""


class Link:
    """A port that leads to another one."""

    def __init__(self, connect: Callable[[], Awaitable[_Streams]]) -> None:
        self.port = 0
        self._connect = connect
        self._fault: Fault | None = None
        self._pairs: set[_Pair] = set()

    @property
    def address(self) -> TcpAddress:
        """Where it begins."""
        return TcpAddress("127.0.0.1", self.port)

    def break_with(self, fault: Fault) -> None:
        """Let a fault begin."""
        self._fault = fault
        if fault is Fault.CUT:
            self._end(lambda _: True)

    def heal(self) -> None:
        """End the fault: connections that have lost something break, as their peers know nothing
        of them any more.
        """
        self._fault = None
        self._end(lambda pair: pair.has_lost)

    def end(self) -> None:
        """End all connections."""
        self._end(lambda _: True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry what goes over one connection."""
        pair = _Pair(writer)
        self._pairs.add(pair)
        try:
            if self._fault is Fault.CUT:
                return
            if self._fault is Fault.HALF_OPEN:
                pair.has_lost = True
                await pair.ended.wait()
                return
            far_reader, far_writer = await self._connect()
            pair.writers.append(far_writer)
            await asyncio.gather(
                self._carry(pair, reader, far_writer), self._carry(pair, far_reader, writer)
            )
        except OSError:
            pass  # one of the two is gone, and so is the other then
        finally:
            self._pairs.discard(pair)
            pair.end()

    async def _carry(
        self, pair: "_Pair", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while piece := await reader.read(_PIECE_BYTES):
            if self._fault is Fault.DELAY:
                await asyncio.sleep(DELAY_S)
            if self._fault is Fault.HALF_OPEN:
                pair.has_lost = True
            if not pair.has_lost:
                writer.write(piece)
                await writer.drain()
        if self._fault is Fault.HALF_OPEN or pair.has_lost:
            pair.has_lost = True
            await pair.ended.wait()
        pair.end()

    def _end(self, concerned: "Callable[[_Pair], bool]") -> None:
        for pair in list(self._pairs):
            if concerned(pair):
                pair.end()


class _Pair:
    """A connection and the one that it is continued by."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.has_lost = False
        self.ended = asyncio.Event()

    def end(self) -> None:
        self.ended.set()
        for writer in self.writers:
            writer.transport.abort()


@asynccontextmanager
async def link_to(place: UnixAddress | TcpAddress) -> AsyncGenerator[Link]:
    """A link to where somebody listens."""

    async def connect() -> _Streams:
        if isinstance(place, UnixAddress):
            return await asyncio.open_unix_connection(place.path)
        return await asyncio.open_connection(place.host, place.port)

    link = Link(connect)
    server = await asyncio.start_server(link.serve, "127.0.0.1", 0)
    link.port = server.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        server.close()
        link.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await server.wait_closed()
