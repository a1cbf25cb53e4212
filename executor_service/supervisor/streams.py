"""The output and input of one command, addressed by byte offset."""

from __future__ import annotations

import fcntl
import os

from executor_service.supervisor import frames
from executor_service.supervisor.frames import (
    MAX_DATA_BYTES,
    MAX_OUTPUT_BYTES,
    STDIN_WINDOW_BYTES,
    FrameError,
)
from executor_service.supervisor.light import deque, suppress
from executor_service.supervisor.loop import READABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from executor_service.supervisor.connection import Connection
    from executor_service.supervisor.frames import Buffer
    from executor_service.supervisor.loop import Loop

_CHUNK_COST_BYTES = 128
"""What a chunk costs besides its bytes, so that tiny writes are bounded too."""
_MERGE_BELOW_BYTES = 4096
_END_OF_TERMINAL_INPUT = b"\x04"
_F_SETPIPE_SZ = 1031
_LAST_READ_BYTES = 1024 * 1024
"""How much is still read from processes that stay and never stop writing."""


class OutputStream:
    """Output of one descriptor, kept until the executor has acknowledged it."""

    def __init__(self, number: int, fd: int) -> None:
        self.number = number
        self.fd: int | None = fd
        """Our end of the pipe; None when closed."""
        self.idle = False
        """Whether the pipe is empty but still open."""
        self.end = 0
        self.acked = 0
        self._read_bytes = MAX_DATA_BYTES
        self._sent = 0
        self._kept_from = 0
        """Where the first kept chunk begins: at acked or before it."""
        self._unacked: deque[bytes] = deque()
        self._unsent: deque[bytes] = deque()

    @property
    def cost_bytes(self) -> int:
        chunks = len(self._unacked) + len(self._unsent)
        return self.end - self.acked + chunks * _CHUNK_COST_BYTES

    @property
    def all_sent(self) -> bool:
        return not self._unsent

    def read(self) -> bool:
        """Read one chunk from the pipe; False if there is none."""
        if self.fd is None:
            return False
        try:
            data = os.read(self.fd, self._read_bytes)
        except BlockingIOError:
            self.idle = True
            return False
        except OSError:
            data = b""  # a terminal answers EIO when its last user is gone
        self.idle = False
        if not data:
            return False
        if len(data) == self._read_bytes == MAX_DATA_BYTES:
            self._widen(self.fd)
        self.end += len(data)
        if self._unsent and len(data) + len(self._unsent[-1]) <= _MERGE_BELOW_BYTES:
            self._unsent[-1] += data
        else:
            self._unsent.append(data)
        return True

    def _widen(self, fd: int) -> None:
        """Enlarge a pipe that was full; not every pipe, as the kernel limits a user's total."""
        with suppress(OSError):  # a terminal, or the user has too many large pipes
            fcntl.fcntl(fd, _F_SETPIPE_SZ, MAX_OUTPUT_BYTES)
            self._read_bytes = MAX_OUTPUT_BYTES

    def next_chunk(self) -> tuple[int, Buffer] | None:
        """Return offset and bytes to send next; None when all is sent."""
        if not self._unsent:
            return None
        chunk = self._unsent.popleft()
        self._unacked.append(chunk)
        start = self._sent
        self._sent += len(chunk)
        skip = max(0, self.acked - start)
        return (start + skip, memoryview(chunk)[skip:] if skip else chunk)

    def ack(self, offset: int) -> None:
        """Forget what lies before offset; FrameError if it was never sent."""
        self.acked = max(self.acked, min(offset, self._sent))
        while self._unacked and self._kept_from + len(self._unacked[0]) <= self.acked:
            self._kept_from += len(self._unacked.popleft())

    def rewind(self) -> None:
        """Send everything again that was not acknowledged."""
        self._unsent.extendleft(reversed(self._unacked))
        self._unacked.clear()
        self._sent = self._kept_from


class InputStream:
    """Standard input from the executor that the command has not read yet."""

    def __init__(self, fd: int | None, is_terminal: bool) -> None:
        self.fd = fd
        """Our end of the pipe; None when no more input is wanted."""
        self._is_terminal = is_terminal
        self.received = 0
        self.written = 0
        self._ends = False
        self._is_in_line = False
        self._pending: deque[Buffer] = deque()

    @property
    def waiting(self) -> bool:
        return self.fd is not None and bool(self._pending)

    def receive(self, offset: int, data: memoryview, ends: bool) -> None:
        """Take input, skipping what was received before; FrameError for a gap or too much."""
        skip = self.received - offset
        if skip < 0:
            raise FrameError("standard input has a gap")
        fresh = bytes(data[skip:])
        if self.received + len(fresh) - self.written > STDIN_WINDOW_BYTES:
            raise FrameError("standard input exceeds its window")
        self.received += len(fresh)
        if self.fd is None:
            self.written = self.received
            return
        if fresh:
            self._pending.append(fresh)
            self._is_in_line = fresh[-1:] not in (b"\n", b"\r")
        if ends and not self._ends:
            self._ends = True
            if self._is_terminal:
                # In a line, the first one only hands over the line.
                self._pending.append(_END_OF_TERMINAL_INPUT * (1 + self._is_in_line))

    def write(self) -> bool:
        """Write as much as the command takes now; False if it never takes more."""
        assert self.fd is not None
        try:
            while self._pending:
                head = self._pending[0]
                count = os.write(self.fd, head)
                self.written = min(self.received, self.written + count)
                if count < len(head):
                    self._pending[0] = memoryview(head)[count:]
                else:
                    self._pending.popleft()
        except BlockingIOError:
            return True
        except OSError:
            self.abandon()
            return False
        return not self._ends or self._is_terminal

    def abandon(self) -> None:
        """Forget pending input; from now on treat input as read."""
        self._pending.clear()
        self.written = self.received


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
        return all(stream.fd is None for stream in self._streams)

    @property
    def all_sent(self) -> bool:
        return all(stream.all_sent for stream in self._streams)

    def ends(self) -> list[int]:
        return self._each(lambda stream: stream.end)

    def acked(self) -> list[int]:
        return self._each(lambda stream: stream.acked)

    def ack(self, number: int, offset: int) -> None:
        """Record how much of a stream the executor has; this may make room."""
        for stream in self._streams:
            if stream.number == number:
                stream.ack(offset)

    def rewind(self, acked: list[int]) -> None:
        """Start again from the offsets that a new executor has."""
        for stream in self._streams:
            stream.ack(acked[stream.number - 1])
            stream.rewind()

    def send(self, connection: Connection, ident: int) -> None:
        """Send output as long as the connection takes it."""
        for stream in self._streams:
            while not connection.congested:
                chunk = stream.next_chunk()
                if chunk is None:
                    break
                offset, data = chunk
                head = frames.OUTPUT_HEAD.pack(stream.number, offset)
                connection.send(frames.header(frames.OUTPUT, ident, head, data), head, data)

    def watch(self) -> None:
        """Read new output while there is room."""
        if not self._has_room:
            self._unwatch()
            return
        for stream in self._streams:
            if stream.fd is not None and stream.fd not in self._watched:
                self._watched.add(stream.fd)
                self._loop.watch(stream.fd, READABLE, self._reader(stream))

    def drain(self, keep_open: bool) -> bool:
        """Read what is there and close; False if there is no room yet.

        Call it when the writers are gone. keep_open is for writers that stay: their later output is
        dropped, which neither blocks nor ends them.
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
