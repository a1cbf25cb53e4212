"""The bytes of one command on their way out and in, addressed by offset."""

from __future__ import annotations

import fcntl
import os
from collections import deque
from contextlib import suppress
from typing import Callable

from executor_service.supervisor import frames
from executor_service.supervisor.connection import Connection
from executor_service.supervisor.frames import (
    MAX_DATA_BYTES,
    MAX_OUTPUT_BYTES,
    STDIN_WINDOW_BYTES,
    Buffer,
    FrameError,
)
from executor_service.supervisor.loop import READABLE, Loop

_CHUNK_COST_BYTES = 128
"""What keeping a chunk costs beside its bytes, so that tiny writes are bounded too."""
_MERGE_BELOW_BYTES = 4096
_END_OF_TERMINAL_INPUT = b"\x04"
_F_SETPIPE_SZ = 1031
"""Python has a name for it from 3.10 on."""
_LAST_READ_BYTES = 1024 * 1024
"""How much is still read from processes that stay and never stop writing."""


class OutputStream:
    """What a command wrote to one descriptor, kept until the executor has acknowledged it."""

    def __init__(self, number: int, fd: int) -> None:
        self.number = number
        self.fd: int | None = fd
        """Our end of the pipe; None when it is closed."""
        self.idle = False
        """True when the last look found nothing to read but the pipe is still open."""
        self.end = 0
        self.acked = 0
        self._read_bytes = MAX_DATA_BYTES
        self._sent = 0
        self._kept_from = 0
        """Where the first kept chunk begins: at acked, or before it inside the same chunk."""
        self._unacked: deque[bytes] = deque()
        self._unsent: deque[bytes] = deque()

    @property
    def cost_bytes(self) -> int:
        """Memory that the kept output takes."""
        chunks = len(self._unacked) + len(self._unsent)
        return self.end - self.acked + chunks * _CHUNK_COST_BYTES

    @property
    def all_sent(self) -> bool:
        """Whether everything that was read has been given to next_chunk's caller."""
        return not self._unsent

    def read(self) -> bool:
        """Take one chunk from the pipe; False when nothing is there or nothing will come."""
        if self.fd is None:
            return False
        try:
            data = os.read(self.fd, self._read_bytes)
        except BlockingIOError:
            self.idle = True
            return False
        except OSError:
            data = b""  # a terminal answers EIO when its last user has gone
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
        """Let a command that fills its pipe write more of it at a time.

        Not every command: what a user's pipes hold together is limited, and most need no more.
        """
        with suppress(OSError):  # a terminal, or the user has too many such pipes
            fcntl.fcntl(fd, _F_SETPIPE_SZ, MAX_OUTPUT_BYTES)
            self._read_bytes = MAX_OUTPUT_BYTES

    def next_chunk(self) -> tuple[int, Buffer] | None:
        """Offset and bytes to send next; None when all has been sent."""
        if not self._unsent:
            return None
        chunk = self._unsent.popleft()
        self._unacked.append(chunk)
        start = self._sent
        self._sent += len(chunk)
        skip = max(0, self.acked - start)
        return (start + skip, memoryview(chunk)[skip:] if skip else chunk)

    def ack(self, offset: int) -> None:
        """Forget what lies before offset; what was never sent cannot be acknowledged."""
        self.acked = max(self.acked, min(offset, self._sent))
        while self._unacked and self._kept_from + len(self._unacked[0]) <= self.acked:
            self._kept_from += len(self._unacked.popleft())

    def rewind(self) -> None:
        """Send again, to a new executor, all that was not acknowledged."""
        self._unsent.extendleft(reversed(self._unacked))
        self._unacked.clear()
        self._sent = self._kept_from


class InputStream:
    """What the executor sent for a command's standard input and the command has not read yet."""

    def __init__(self, fd: int | None, is_terminal: bool) -> None:
        self.fd = fd
        """Our end of the pipe; None when no more input is wanted."""
        self._is_terminal = is_terminal
        self.received = 0
        self.written = 0
        self._ends = False
        self._pending: deque[Buffer] = deque()

    @property
    def waiting(self) -> bool:
        """Whether there is something to write once the command reads."""
        return self.fd is not None and bool(self._pending)

    def receive(self, offset: int, data: memoryview, ends: bool) -> None:
        """Take input, skipping what was received before; FrameError for a gap or a flood."""
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
        if ends and not self._ends:
            self._ends = True
            if self._is_terminal:
                self._pending.append(_END_OF_TERMINAL_INPUT)

    def write(self) -> bool:
        """Hand over what the command takes now; False when it takes no more, ever."""
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
        """Forget what is pending and take whatever comes as if it had been read."""
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
