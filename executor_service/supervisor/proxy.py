"""The way out of a box without a network: connections to a port of its loopback become streams to
the executor, which decides where they may go.

A stream ends for good after STREAM_GONE from here and STREAM_RESET from the executor. Until then it
counts towards MAX_STREAMS.
"""

from __future__ import annotations

import os

from executor_service.supervisor import frames
from executor_service.supervisor.frames import FrameError
from executor_service.supervisor.light import accept, deque, socket, suppress
from executor_service.supervisor.loop import READABLE, WRITABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from executor_service.supervisor.command import CommandContext
    from executor_service.supervisor.frames import Buffer

_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO")
_USUAL_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOPBACK = "127.0.0.1"
_BACKLOG = 128


def _believe(certificate: str, env: dict[str, str]) -> dict[str, str]:
    """Return variables that make TLS clients trust another authority; none without certificate."""
    if not certificate:
        return {}
    folder = env.get("TMPDIR") or "/tmp"  # noqa: S108 - commands have it, and nobody else
    path = os.path.join(folder, ".hermes-authorities.pem")
    new = f"{path}.{os.urandom(8).hex()}"
    with open(os.open(new, _NEW_FILE, 0o644), "wb") as file:
        file.write(_usual(env) + certificate.encode("ascii"))
    # Running commands have this file's name, and the new certificate has the same key.
    os.rename(new, path)
    return dict.fromkeys(_VARIABLES, path)


def _usual(env: dict[str, str]) -> bytes:
    for path in (env.get("SSL_CERT_FILE", ""), *_USUAL_FILES):
        with suppress(OSError), open(path, "rb") as file:
            return file.read().rstrip(b"\n") + b"\n"
    return b""


class _Stream:
    def __init__(self, ident: int, sock: socket.socket, proxy: Proxy) -> None:
        self.ident = ident
        self._sock: socket.socket | None = sock
        self._fd = sock.fileno()
        self._proxy = proxy
        self._sent = 0
        self._acked = 0
        self._received = 0
        self._pending: deque[Buffer] = deque()
        self._ended_by_us = False
        self._ended_by_executor = False
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def watch(self) -> None:
        """Watch for what can proceed now."""
        if self._sock is None:
            return
        window = frames.STREAM_WINDOW_BYTES - (self._sent - self._acked)
        reads = not self._ended_by_us and window > 0 and not self._proxy.congested
        events = (READABLE if reads else 0) | (WRITABLE if self._pending else 0)
        if events:
            self._proxy.loop.watch(self._fd, events, self._ready)
        else:
            self._proxy.loop.unwatch(self._fd)

    def data(self, offset: int, data: memoryview) -> None:
        if offset != self._received or self._ended_by_executor:
            raise FrameError("stream has a gap")
        self._received += len(data)
        if self._sock is not None:
            self._pending.append(bytes(data))
            self._write()

    def ack(self, offset: int) -> None:
        if not self._acked <= offset <= self._sent:
            raise FrameError("acknowledged what was not sent")
        self._acked = offset
        self.watch()

    def end(self) -> None:
        self._ended_by_executor = True
        if self._sock is not None:
            self._write()

    def break_off(self) -> None:
        self._pending.clear()
        if self._sock is not None:
            self._proxy.loop.unwatch(self._fd)
            self._sock.close()
            self._sock = None
            self._proxy.send(frames.STREAM_GONE, self.ident)

    def _ready(self, events: int) -> None:
        if events & WRITABLE:
            self._write()
        if events & ~WRITABLE and self._sock is not None:
            self._read()

    def _read(self) -> None:
        window = frames.STREAM_WINDOW_BYTES - (self._sent - self._acked)
        if self._sock is None or self._ended_by_us or window <= 0:
            return
        try:
            data = self._sock.recv(min(window, frames.MAX_DATA_BYTES))
        except BlockingIOError:
            return
        except OSError:
            self.break_off()
            return
        if data:
            head = frames.STREAM_HEAD.pack(self._sent)
            self._sent += len(data)
            self._proxy.send(frames.STREAM_BYTES, self.ident, head, data)
        else:
            self._ended_by_us = True
            self._proxy.send(frames.STREAM_ENDED, self.ident)
        self._go_on()

    def _write(self) -> None:
        assert self._sock is not None
        taken = 0
        try:
            while self._pending:
                count = self._sock.send(self._pending[0])
                taken += count
                if count < len(self._pending[0]):
                    self._pending[0] = memoryview(self._pending[0])[count:]
                else:
                    self._pending.popleft()
            if self._ended_by_executor:
                self._sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self.break_off()
            return
        if taken:
            left = sum(map(len, self._pending))
            head = frames.STREAM_HEAD.pack(self._received - left)
            self._proxy.send(frames.STREAM_TAKEN, self.ident, head)
        self._go_on()

    def _go_on(self) -> None:
        if self._ended_by_us and self._ended_by_executor and not self._pending:
            self.break_off()
        else:
            self.watch()


class Proxy:
    """Listens in the box while the executor wants it, and carries the connections."""

    def __init__(self, context: CommandContext) -> None:
        self.loop = context.loop
        self._context = context
        self.send = context.send
        self._listener: socket.socket | None = None
        self._streams: dict[int, _Stream] = {}
        self._last_ident = 0
        self.handlers: dict[int, Callable[[int, memoryview], None]] = {
            frames.PROXY: self._set,
            frames.STREAM_DATA: self._data,
            frames.STREAM_ACK: self._ack,
            frames.STREAM_END: self._end,
            frames.STREAM_RESET: self._reset,
        }

    @property
    def congested(self) -> bool:
        return self._context.connection is not None and self._context.connection.congested

    def executor_left(self) -> None:
        """End all streams; new connections wait for the next executor."""
        for stream in list(self._streams.values()):
            stream.break_off()
        self._streams.clear()
        self._watch_listener()

    def pump(self) -> None:
        for stream in list(self._streams.values()):
            stream.watch()

    def _set(self, ident: int, payload: memoryview) -> None:
        """Listen at a port, or stop with port 0."""
        message = frames.read_json(payload)
        port = int(message["port"])
        env: dict[str, str] = message.get("env", {})
        answer: dict[str, Any] = {"port": port}
        try:
            self._listen(port)
            spawner = self._context.spawner
            trusted = _believe(message.get("authority", ""), spawner.base_env)
            spawner.extra_env = {**env, **trusted} if port else {}
        except OSError as error:
            place = error.filename or f"port {port} of the box's loopback"
            answer = {"port": 0, "error": f"{place}: {error.strerror}"}
        self._context.send_json(frames.PROXY_SET, ident, answer)

    def _listen(self, port: int) -> None:
        listener = self._listener
        if listener is not None and listener.getsockname()[1] != port:
            self.loop.unwatch(listener.fileno())
            listener.close()
            self._listener = listener = None
        if port and listener is None:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((_LOOPBACK, port))
                listener.listen(_BACKLOG)
            except OSError:
                listener.close()
                raise
            listener.setblocking(False)
            self._listener = listener
        self._watch_listener()

    def _stream(self, ident: int) -> _Stream:
        stream = self._streams.get(ident)
        if stream is None:
            raise FrameError("frame of an unknown stream")
        return stream

    def _data(self, ident: int, payload: memoryview) -> None:
        (offset,), data = frames.split_head(frames.STREAM_HEAD, payload)
        self._stream(ident).data(offset, data)

    def _ack(self, ident: int, payload: memoryview) -> None:
        (offset,), _ = frames.split_head(frames.STREAM_HEAD, payload)
        self._stream(ident).ack(offset)

    def _end(self, ident: int, _payload: memoryview) -> None:
        self._stream(ident).end()

    def _reset(self, ident: int, _payload: memoryview) -> None:
        self._stream(ident).break_off()
        del self._streams[ident]
        self._watch_listener()

    def _watch_listener(self) -> None:
        if self._listener is None:
            return
        has_place = len(self._streams) < frames.MAX_STREAMS
        if has_place and self._context.connection is not None:
            self.loop.watch(self._listener.fileno(), READABLE, self._accept)
        else:
            self.loop.unwatch(self._listener.fileno())

    def _accept(self, _events: int) -> None:
        assert self._listener is not None
        try:
            sock = accept(self._listener)
        except OSError:
            return
        self._last_ident += 1
        stream = _Stream(self._last_ident, sock, self)
        self._streams[stream.ident] = stream
        self.send(frames.STREAM_OPENED, stream.ident)
        stream.watch()
        self._watch_listener()
