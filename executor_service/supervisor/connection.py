"""The channel to the executor: handshake, frames and the queue of outgoing bytes."""

from __future__ import annotations

import struct
from itertools import islice

from executor_service.supervisor import frames
from executor_service.supervisor.frames import FrameError, FrameReader
from executor_service.supervisor.light import accept, deque, sha256, socket
from executor_service.supervisor.loop import READABLE, WRITABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from executor_service.supervisor.frames import Buffer
    from executor_service.supervisor.loop import Loop

    Handler = Callable[[int, int, memoryview], None]
    """Takes a request's kind, id and payload; raises one of NONSENSE for an invalid one."""

_READ_BYTES = 256 * 1024
_CONGESTED_BYTES = 256 * 1024
_SEND_BUFFER_BYTES = 2 * frames.MAX_OUTPUT_BYTES
"""Room for two frames, so that one can be sent while the executor reads the one before."""
_MOST_PARTS = 64
_MAX_STRANGERS = 8
_HELLO_TIMEOUT_S = 10.0
_MAX_HELLO_BYTES = 512 * 1024
NONSENSE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
"""What a handler raises for a request that lacks fields or has fields of other types."""


class Connection:
    """One accepted socket: frames in, queued bytes out, never blocking."""

    def __init__(self, loop: Loop, sock: socket.socket, handler: Handler) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self.reader = FrameReader(frames.REQUESTS, _MAX_HELLO_BYTES)
        self.handler = handler
        self.on_closed: Callable[[], None] = _nothing
        self.on_drained: Callable[[], None] = _nothing
        self.closed = False
        self._loop = loop
        self._sock = sock
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        loop.watch(sock.fileno(), READABLE, self._ready)

    @property
    def congested(self) -> bool:
        """Whether streams should wait because the executor reads slowly."""
        return self._queued_bytes > _CONGESTED_BYTES

    def send(self, *parts: Buffer) -> None:
        """Send the parts, now as far as possible and the rest when the socket takes it."""
        if self.closed:
            return
        sent = 0
        if not self._queue:
            try:
                sent = self._sock.sendmsg(parts)
            except BlockingIOError:
                pass
            except OSError:
                self.close()
                return
        self._queue.extend(map(memoryview, parts))
        self._queued_bytes += sum(map(len, parts))
        self._forget(sent)
        if self._queue:
            self._loop.watch(self._sock.fileno(), READABLE | WRITABLE, self._ready)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._queue.clear()
        self._loop.unwatch(self._sock.fileno())
        self._sock.close()
        self.on_closed()

    def _ready(self, events: int) -> None:
        if events & WRITABLE:
            self._flush()
        if events & ~WRITABLE and not self.closed:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            for kind, ident, payload in self.reader.feed(data):
                if self.closed:
                    return
                self.handler(kind, ident, payload)
        except NONSENSE:
            self.close()

    def _flush(self) -> None:
        try:
            while self._queue:
                self._forget(self._sock.sendmsg(islice(self._queue, _MOST_PARTS)))
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._loop.watch(self._sock.fileno(), READABLE, self._ready)
        self.on_drained()

    def _forget(self, count: int) -> None:
        self._queued_bytes -= count
        while self._queue and count >= len(self._queue[0]):
            count -= len(self._queue.popleft())
        if count:
            self._queue[0] = self._queue[0][count:]


class Handshake:
    """Admits the executor that knows the box's secret and has the highest epoch."""

    def __init__(
        self,
        loop: Loop,
        listener: socket.socket,
        box_key: str,
        secret_sha256: str,
        on_executor: Callable[[Connection, dict[str, Any]], None],
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._box_key = box_key
        self._secret_sha256 = secret_sha256
        self._on_executor = on_executor
        self._strangers: list[Connection] = []
        self._highest_epoch = -1
        listener.setblocking(False)
        loop.watch(listener.fileno(), READABLE, self._accept)

    def _accept(self, _events: int) -> None:
        try:
            sock = accept(self._listener)
        except OSError:
            return
        if len(self._strangers) >= _MAX_STRANGERS:
            self._strangers[0].close()
        connection = Connection(self._loop, sock, _refuse)
        timer = self._loop.after(_HELLO_TIMEOUT_S, connection.close)

        def forget() -> None:
            timer.cancel()
            self._strangers.remove(connection)

        def first_frame(kind: int, _ident: int, payload: memoryview) -> None:
            if kind != frames.HELLO:
                raise FrameError("the first frame is not hello")
            hello = frames.read_json(payload)
            refusal = self._refusal(hello)
            if refusal:
                # It is the first frame, so the kernel has room for it.
                connection.send(frames.pack_json(frames.DENIED, 0, {"reason": refusal}))
                connection.close()
                return
            forget()
            connection.on_closed = _nothing
            connection.reader.max_payload_bytes = frames.MAX_REQUEST_BYTES
            self._on_executor(connection, hello)

        self._strangers.append(connection)
        connection.on_closed = forget
        connection.handler = first_frame

    def _refusal(self, hello: dict[str, Any]) -> str:
        # The digest is no secret, so how long the comparison takes reveals nothing.
        if sha256(hello["secret"].encode()).hexdigest() != self._secret_sha256:
            return "WRONG_SECRET"
        epoch = int(hello["epoch"])
        if hello.get("box") != self._box_key:
            return "WRONG_BOX"
        if hello.get("version") != frames.PROTOCOL_VERSION:
            return "VERSION"
        if epoch < self._highest_epoch:
            return "STALE_EPOCH"
        self._highest_epoch = epoch
        return ""


def _refuse(_kind: int, _ident: int, _payload: memoryview) -> None:
    raise FrameError("nobody listens")


def _nothing() -> None:
    pass
