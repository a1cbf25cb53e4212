"""A ByteStream over a connected socket, without a thread and without a second buffer."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Protocol

from executor_service.errors import LinkClosed


class SocketStream:
    """Reads and writes a non-blocking socket on the running event loop."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._closing = False
        self._calls = 0

    async def read(self, n: int) -> bytes:
        if self._closing:
            return b""
        with self._call():
            try:
                return await asyncio.get_running_loop().sock_recv(self._socket, n)
            except OSError:
                return b""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            raise LinkClosed("the stream is closed")
        with self._call():
            try:
                await asyncio.get_running_loop().sock_sendall(self._socket, data)
            except OSError as error:
                raise LinkClosed(f"the stream broke: {error}") from error

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._calls == 0:
            self._socket.close()

    @contextmanager
    def _call(self) -> Generator[None]:
        """Keep the descriptor until the last call that waits on it has returned."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if self._closing and self._calls == 0:
                self._socket.close()


class ByteStream(Protocol):
    """A two-way stream of bytes to the supervisor of one box."""

    async def read(self, n: int) -> bytes:
        """Return 1 to n bytes; empty when the stream has ended or broken."""
        ...

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of data at the other side's pace; fails with LinkClosed."""
        ...

    async def close(self) -> None:
        """End the stream and wake a pending read; safe to call twice."""
        ...
