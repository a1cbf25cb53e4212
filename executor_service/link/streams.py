"""Network connections of a box's commands, as seen over one link to that box."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from executor_service.errors import ExecutorError, LinkClosed, ProxyRefused
from executor_service.link.messages import read_number, read_text
from executor_service.link.outbox import Outgoing
from executor_service.supervisor import frames
from executor_service.supervisor.frames import FrameError

_ANSWER_TIMEOUT_S = 10.0
_LINGER_S = 5.0
"""How long a command may take to read the last bytes and to close its end."""


class BoxStream:
    """A connection that a command has made: a ByteStream."""

    def __init__(self, ident: int, outgoing: Outgoing) -> None:
        self.ident = ident
        self.when_aborted: Callable[[], object] | None = None
        """Called if the stream goes before the command has ended its side."""
        self._outgoing = outgoing
        self._received = self._taken = 0
        self._sent = self._sent_taken = 0
        # Copied together, because a view of one byte would keep the whole frame in memory.
        self._buffer = bytearray()
        self._box_ended = False
        self._we_ended = False
        self._error: ExecutorError | None = None
        self._moved = asyncio.Event()
        self._is_over = False
        """Whether our last frame of it has been sent."""

    async def read(self, n: int) -> bytes:
        """Return 1 to n bytes; empty when the command sends no more."""
        while not self._buffer:
            if self._box_ended or self._is_over:
                return b""
            await self._move()
        data = bytes(self._buffer[:n])
        del self._buffer[:n]
        self._taken += len(data)
        self._send(frames.STREAM_ACK, frames.STREAM_HEAD.pack(self._taken))
        return data

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of data at the command's pace; LinkClosed when it has gone."""
        view = memoryview(data)
        while view:
            await self._outgoing.room()
            if self._is_over:
                raise self._error or LinkClosed("the command has closed its connection")
            room = frames.STREAM_WINDOW_BYTES - (self._sent - self._sent_taken)
            piece, view = view[:room], view[room:]
            while piece:
                part, piece = piece[: frames.MAX_DATA_BYTES], piece[frames.MAX_DATA_BYTES :]
                self._send(frames.STREAM_DATA, frames.STREAM_HEAD.pack(self._sent), part)
                self._sent += len(part)
            if view:
                await self._move()

    def end(self) -> None:
        if not self._we_ended:
            self._we_ended = True
            self._send(frames.STREAM_END)

    async def close(self) -> None:
        """End it once the command has read everything and closed its end, or after a while."""
        self.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while not self._is_over:
                    self._buffer.clear()
                    await self._move()
        self.reset()

    def reset(self) -> None:
        self._buffer.clear()
        self._finish()

    def on_bytes(self, payload: memoryview) -> None:
        (offset,), data = frames.split_head(frames.STREAM_HEAD, payload)
        if self._box_ended or offset != self._received or not data:
            raise FrameError("stream has a gap")
        self._received += len(data)
        if self._received - self._taken > frames.STREAM_WINDOW_BYTES:
            raise FrameError("more of a stream than was asked for")
        if not self._is_over:
            self._buffer += data
            self._moved.set()

    def on_taken(self, payload: memoryview) -> None:
        (offset,), _ = frames.split_head(frames.STREAM_HEAD, payload)
        if not self._sent_taken <= offset <= self._sent:
            raise FrameError("took more of a stream than was sent")
        self._sent_taken = offset
        self._moved.set()

    def on_ended(self) -> None:
        if self._box_ended:
            raise FrameError("a second end of a stream")
        self._box_ended = True
        self._moved.set()

    def on_gone(self, error: ExecutorError | None = None) -> None:
        """The STREAM_GONE frame, or the end of the link; received bytes can still be read."""
        self._error = error
        if self.when_aborted is not None and not (self._box_ended or self._is_over):
            self.when_aborted()
        self._finish()

    def _finish(self) -> None:
        self._send(frames.STREAM_RESET)
        self._is_over = True
        self._moved.set()

    async def _move(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    def _send(self, kind: int, *parts: bytes | memoryview) -> None:
        if not self._is_over:
            self._outgoing.send(kind, self.ident, *parts)


class RemoteStreams:
    """All connections that a box's commands have made, and the port of the box that takes them."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._on_stream: Callable[[BoxStream], None] | None = None
        self._streams: dict[int, BoxStream] = {}
        self._last_ident = 0
        self.handlers: Mapping[int, Callable[[int, memoryview], None]] = {
            frames.PROXY_SET: self._on_proxy_set,
            frames.STREAM_OPENED: self._on_opened,
            frames.STREAM_BYTES: lambda ident, payload: self._stream(ident).on_bytes(payload),
            frames.STREAM_TAKEN: lambda ident, payload: self._stream(ident).on_taken(payload),
            frames.STREAM_ENDED: lambda ident, _: self._stream(ident).on_ended(),
            frames.STREAM_GONE: self._on_gone,
        }

    async def listen(
        self,
        port: int,
        env: Mapping[str, str],
        authority: str,
        on_stream: Callable[[BoxStream], None],
    ) -> None:
        """Give commands that start from now on a proxy at a port of the box's loopback.

        They also trust the authority with this certificate in PEM form, unless it is empty.
        on_stream gets and owns each connection. Fails with ProxyRefused.
        """
        self._on_stream = on_stream
        await self._set({"port": port, "env": dict(env), "authority": authority})

    async def stop(self) -> None:
        """Accept no more connections; open streams stay."""
        self._on_stream = None
        await self._set({"port": 0})

    async def _set(self, message: dict[str, object]) -> None:
        ident = self._outgoing.new_ident()
        answer = self._outgoing.expect(frames.PROXY, ident)
        self._outgoing.send_json(frames.PROXY, ident, message)
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                await answer
        except TimeoutError:
            raise ProxyRefused("it does not answer") from None

    def on_link_ended(self, error: ExecutorError) -> None:
        for stream in self._streams.values():
            stream.on_gone(error)
        self._streams.clear()

    def _on_proxy_set(self, ident: int, payload: memoryview) -> None:
        message = frames.read_json(payload)
        port, refusal = read_number(message, "port"), message.get("error")
        is_set = refusal is None and port < 1 << 16
        said = None if is_set else ProxyRefused(read_text(message, "error"))
        self._outgoing.resolve(frames.PROXY, ident, said)

    def _on_opened(self, ident: int, _payload: memoryview) -> None:
        if ident <= self._last_ident or len(self._streams) >= frames.MAX_STREAMS:
            raise FrameError("a stream too many")
        self._last_ident = ident
        stream = self._streams[ident] = BoxStream(ident, self._outgoing)
        if self._on_stream is None:
            stream.reset()
        else:
            self._on_stream(stream)

    def _on_gone(self, ident: int, _payload: memoryview) -> None:
        self._stream(ident).on_gone()
        del self._streams[ident]

    def _stream(self, ident: int) -> BoxStream:
        stream = self._streams.get(ident)
        if stream is None:
            raise FrameError("frame of an unknown stream")
        return stream
