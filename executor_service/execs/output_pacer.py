"""Holding a command back for a moment while the one who reads its output is about to miss some.

Output is stored in a ring, and a command may fill it faster than a client can take it over the
network. Room for more is then given late, so that a reader who takes tens of megabytes a second
misses nothing; one who is slower still holds no command up for longer than that.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

FAR_BEHIND_BYTES = 1024 * 1024
HOLD_S = 0.02
"""For each MiB at most, as a box sends no more before it has room: 50 MB/s are left."""

Send = Callable[[int, int], None]
"""Tells the box up to where a stream is stored."""
Behind = Callable[[], int]
"""How many bytes of what there is have not been sent to a reader."""


class OutputPacer:
    """Passes on what was stored, late while the foremost reader is far behind."""

    def __init__(
        self, send: Send, far_bytes: int = FAR_BEHIND_BYTES, hold_s: float = HOLD_S
    ) -> None:
        self._send = send
        self._far_bytes = far_bytes
        self._hold_s = hold_s
        self._readers: set[Behind] = set()
        self._held: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def reading(self, reader: Behind) -> Generator[None]:
        """Somebody reads for the time of the block."""
        self._readers.add(reader)
        try:
            yield
        finally:
            self._readers.discard(reader)
            self.on_progress()

    def on_progress(self) -> None:
        """A reader has come further."""
        if self._timer is not None and not self._is_late:
            self._release()

    def acknowledge(self, stream: int, offset: int) -> None:
        """Everything of a stream before an offset is safe."""
        self._held[stream] = offset
        if self._timer is None:
            if self._is_late:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(self._hold_s, self._release)
            else:
                self._release()

    def forget(self) -> None:
        """The link has ended to which this was to be told; the next one begins with it."""
        self._held.clear()
        self._release()

    @property
    def _is_late(self) -> bool:
        return min((behind() for behind in self._readers), default=0) > self._far_bytes

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, {}
        for stream, offset in held.items():
            self._send(stream, offset)
