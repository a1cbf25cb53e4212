"""The standard streams of a command in a pod, over one WebSocket of the API server."""

import asyncio
import contextlib
import json
import logging
from typing import TYPE_CHECKING, Any, cast

from executor_service.errors import LinkClosed

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

log = logging.getLogger(__name__)

PROTOCOL = "v5.channel.k8s.io"
"""Of Kubernetes 1.30: the first that can end one direction."""
_STDIN, _STDOUT, _STDERR, _STATUS, _CLOSE = 0, 1, 2, 3, 255
_MAX_WRITE_BYTES = 32 * 1024
_MAX_COMPLAINT_BYTES = 4096
_CLOSE_DEADLINE_S = 1.0


class ExecStream:
    """Standard input and output as a ByteStream; the socket's own limits slow both sides down."""

    def __init__(self, socket: "ClientConnection") -> None:
        self._socket = socket
        self._pending = memoryview(b"")
        self._stderr = b""
        self._status = ""
        self._has_ended = False
        self._is_closed = False

    async def complaint(self) -> str:
        """The command's standard error, and the server's reason for its end."""
        said = self._stderr.decode(errors="replace").strip()
        return " ".join("; ".join(filter(None, (said, self._status))).split())

    @property
    def is_over(self) -> bool:
        return self._is_closed or self._has_ended

    async def read(self, n: int) -> bytes:
        """Return bytes of standard output; everything else is logged at the end."""
        while not (self._pending or self._has_ended):
            await self._take_message()
        if not self._pending and not self._is_closed and (said := await self.complaint()):
            log.warning("a box's bridge ended: %s", said)
        data, self._pending = self._pending[:n], self._pending[n:]
        return bytes(data)

    async def _take_message(self) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            message = await self._socket.recv(decode=False)
        except ConnectionClosed:
            self._has_ended = True
            return
        channel, payload = message[:1], memoryview(message)[1:]
        if channel == bytes([_STDOUT]):
            self._pending = payload
        elif channel == bytes([_STDERR]):
            self._stderr = (self._stderr + payload)[-_MAX_COMPLAINT_BYTES:]
        elif channel == bytes([_STATUS]) and payload:
            self._has_ended = True
            self._status = _failure(bytes(payload))

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        from websockets.exceptions import ConnectionClosed

        left = memoryview(data)
        try:
            while left:
                await self._socket.send(bytes([_STDIN]) + left[:_MAX_WRITE_BYTES])
                left = left[_MAX_WRITE_BYTES:]
        except ConnectionClosed as error:
            raise LinkClosed(f"the API server's stream broke: {error}") from error

    async def close(self) -> None:
        """End standard input, then the stream."""
        from websockets.exceptions import ConnectionClosed

        if self._is_closed:
            return
        self._is_closed = True
        # It waits while the other side reads nothing.
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            async with asyncio.timeout(_CLOSE_DEADLINE_S):
                await self._socket.send(bytes([_CLOSE, _STDIN]))
        await self._socket.close()

    def cut(self) -> None:
        self._socket.transport.abort()


def _failure(status: bytes) -> str:
    """The error in the Status object that ends every command; empty if it succeeded."""
    try:
        content: Any = json.loads(status)
    except ValueError:
        return "the server's status cannot be read"
    if not isinstance(content, dict):
        return "the server's status cannot be read"
    said = cast("dict[str, Any]", content)
    return "" if said.get("status") == "Success" else str(said.get("message") or "it failed")
