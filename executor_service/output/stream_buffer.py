"""The end of one output stream that is not in a file yet."""

from collections import deque
from typing import NamedTuple


class _Run(NamedTuple):
    """Bytes that follow one another."""

    start: int
    data: memoryview

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class StreamBuffer:
    """Bytes that arrive, are taken to be written, and are let go of once they are."""

    def __init__(self, end: int) -> None:
        self.written = end
        """Up to here it is in files, and from here on in memory."""
        self.end = end
        """Up to here it has arrived."""
        self._taken = end
        self._runs: deque[_Run] = deque()

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to take."""
        return self._taken < self.end

    def append(self, offset: int, data: memoryview) -> None:
        """Takes what arrives; ValueError for a gap before it while something is not written."""
        if offset != self.end:
            if self.written != self.end:
                raise ValueError(f"output at {offset} follows {self.end} bytes that still wait")
            self.written = self._taken = self.end = offset
        self._runs.append(_Run(offset, data))
        self.end += len(data)

    def take(self) -> tuple[int, memoryview]:
        """Everything that waits, to be written, and where it begins."""
        start, self._taken = self._taken, self.end
        return start, memoryview(self.cut(start, self.end - start))

    def taken_is_written(self) -> int:
        """What was taken is in files; returns how much that is."""
        done = self._taken - self.written
        self.written = self._taken
        while self._runs and self._runs[0].start < self.written:
            self._runs.popleft()
        return done

    def cut(self, offset: int, limit: int) -> bytes:
        """Up to `limit` of the bytes in memory, from an offset on."""
        chosen: list[memoryview] = []
        for run in self._runs:
            if limit <= 0:
                break
            if offset < run.end:
                skip = offset - run.start
                piece = run.data[skip : skip + limit]
                chosen.append(piece)
                offset += len(piece)
                limit -= len(piece)
        return b"".join(chosen)
