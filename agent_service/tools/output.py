"""What the model is shown of a command's output: all of it, or its head and its tail."""

from collections.abc import Callable

from agent_service.records.sandbox import Stream

LIMIT_BYTES = 50_000
HEAD_BYTES = LIMIT_BYTES * 40 // 100
TAIL_BYTES = LIMIT_BYTES - HEAD_BYTES

PROGRESS_PAUSE_S = 0.1
PROGRESS_BYTES = 4000


class OutputWindow:
    """Keeps the first and the last bytes of both streams in the order in which they came."""

    def __init__(self) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """Take more output."""
        self.total_bytes += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[:-TAIL_BYTES]

    def text(self, written_bytes: int = 0) -> str:
        """The output, with a note where something is left out.

        More may have been written than came: a store drops the middle of what nobody reads in time.
        """
        written_bytes = max(self.total_bytes, written_bytes)
        left_out = written_bytes - len(self._head) - len(self._tail)
        if left_out <= 0:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = (part.decode(errors="replace") for part in (self._head, self._tail))
        return f"{head}\n[… {left_out:,} bytes left out …]\n{tail}"


class CommandOutput(OutputWindow):
    """The same, and shown as it comes, in pieces that a person can keep up with."""

    def __init__(self, show: Callable[[str], None], now: Callable[[], float]) -> None:
        super().__init__()
        self._show = show
        self._now = now
        self._waiting = bytearray()
        self._next_at = 0.0

    def __call__(self, stream: Stream, data: bytes) -> None:
        self.add(data)

    def add(self, data: bytes) -> None:
        """Take more output, and show what has gathered if it is time."""
        super().add(data)
        self._waiting += data[-PROGRESS_BYTES:]
        if self._now() >= self._next_at:
            self._flush()

    def text(self, written_bytes: int = 0) -> str:
        """The output as above, once all of it was shown."""
        self._flush()
        return super().text(written_bytes)

    def _flush(self) -> None:
        """Show what has gathered, the end of it if it is much."""
        if self._waiting:
            self._show(bytes(self._waiting[-PROGRESS_BYTES:]).decode(errors="replace"))
            self._waiting.clear()
            self._next_at = self._now() + PROGRESS_PAUSE_S
