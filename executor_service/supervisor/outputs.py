"""What one command writes: read while there is room, sent while the executor keeps up."""

from __future__ import annotations

import os
from typing import Callable

from executor_service.supervisor import frames
from executor_service.supervisor.connection import Connection
from executor_service.supervisor.loop import READABLE, Loop
from executor_service.supervisor.streams import OutputStream

_LAST_READ_BYTES = 1024 * 1024
"""How much is still read from processes that stay and never stop writing."""


class Outputs:
    """Standard output and error of one command; together they hold at most one window."""

    def __init__(self, loop: Loop, streams: list[OutputStream], on_read: Callable[[], None]):
        self._loop = loop
        self._streams = streams
        self._on_read = on_read
        self._watched: set[int] = set()
        self.on_all_closed: Callable[[], None] = _nothing
        self.watch()

    @property
    def all_closed(self) -> bool:
        """Whether nothing more can come."""
        return all(stream.fd is None for stream in self._streams)

    @property
    def all_sent(self) -> bool:
        """Whether everything that was read has been sent."""
        return all(stream.all_sent for stream in self._streams)

    def ends(self) -> list[int]:
        """Bytes read so far from descriptor 1 and 2."""
        return self._each(lambda stream: stream.end)

    def acked(self) -> list[int]:
        """Bytes acknowledged so far of descriptor 1 and 2."""
        return self._each(lambda stream: stream.acked)

    def ack(self, number: int, offset: int) -> None:
        """The executor has this much of a stream, so there may be room again."""
        for stream in self._streams:
            if stream.number == number:
                stream.ack(offset)

    def rewind(self, acked: list[int]) -> None:
        """A new executor has this much of each stream, and shall get the rest again."""
        for stream in self._streams:
            stream.ack(acked[stream.number - 1])
            stream.rewind()

    def send(self, connection: Connection, ident: int) -> None:
        """Send what was read, as long as the connection takes it."""
        for stream in self._streams:
            while not connection.congested:
                chunk = stream.next_chunk()
                if chunk is None:
                    break
                offset, data = chunk
                head = frames.OUTPUT_HEAD.pack(stream.number, offset)
                connection.send(frames.header(frames.OUTPUT, ident, head, data), head, data)

    def watch(self) -> None:
        """Read when something comes, if there is room for it."""
        if not self._has_room:
            self._unwatch()
            return
        for stream in self._streams:
            if stream.fd is not None and stream.fd not in self._watched:
                self._watched.add(stream.fd)
                self._loop.watch(stream.fd, READABLE, self._reader(stream))

    def drain(self, keep_open: bool) -> bool:
        """Read what is there now, then close; False when there is no room yet to do so.

        For after the writers have gone. keep_open is for writers that stay: what they write later
        is dropped, which neither blocks nor ends them.
        """
        for stream in self._streams:
            last = stream.end + _LAST_READ_BYTES
            while stream.fd is not None:
                if not self._has_room:
                    self._unwatch()
                    return False
                if stream.read() and stream.end < last:
                    self._on_read()
                else:
                    self._close(stream, keep_open and (stream.idle or stream.end >= last))
        return True

    @property
    def _has_room(self) -> bool:
        return sum(stream.cost_bytes for stream in self._streams) < frames.WINDOW_BYTES

    def _reader(self, stream: OutputStream) -> Callable[[int], None]:
        def readable(_events: int) -> None:
            if stream.read():
                self._on_read()
                if not self._has_room:
                    self._unwatch()
            elif not stream.idle:
                self._close(stream, keep_open=False)
                if self.all_closed:
                    self.on_all_closed()

        return readable

    def _close(self, stream: OutputStream, keep_open: bool) -> None:
        assert stream.fd is not None
        fd, stream.fd = stream.fd, None
        self._watched.discard(fd)
        self._loop.unwatch(fd)
        if keep_open:
            self._loop.watch(fd, READABLE, lambda _events: _discard(self._loop, fd))
        else:
            os.close(fd)

    def _unwatch(self) -> None:
        for fd in self._watched:
            self._loop.unwatch(fd)
        self._watched.clear()

    def _each(self, value: Callable[[OutputStream], int]) -> list[int]:
        values = {stream.number: value(stream) for stream in self._streams}
        return [values.get(1, 0), values.get(2, 0)]


def _discard(loop: Loop, fd: int) -> None:
    try:
        if os.read(fd, frames.MAX_DATA_BYTES):
            return
    except BlockingIOError:
        return
    except OSError:
        pass
    loop.unwatch(fd)
    os.close(fd)


def _nothing() -> None:
    pass
