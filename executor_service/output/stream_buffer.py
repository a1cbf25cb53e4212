"""The end of one output stream, in memory: what is not in a file yet, and a little of what is."""

from collections import deque
from itertools import chain
from typing import NamedTuple

_MOST_WRITTEN_RUNS = 64
"""So that many small ones do not add up."""


class _Run(NamedTuple):
    """Bytes that follow one another."""

    start: int
    data: bytes | memoryview

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class StreamBuffer:
    """Bytes that arrive, are taken to be written, and are let go of."""

    def __init__(self, end: int) -> None:
        self.written = end
        """Up to here it is in files."""
        self.end = end
        """Up to here it has arrived."""
        self._taken = end
        self._taken_runs: deque[_Run] = deque()
        self._waiting: list[_Run] = []

    @property
    def begin(self) -> int:
        """From here on it is in memory."""
        return self._taken_runs[0].start if self._taken_runs else self._taken

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to take."""
        return bool(self._waiting)

    def append(self, offset: int, data: memoryview) -> None:
        """Takes what arrives; ValueError for a gap before it while something is not written."""
        if offset != self.end:
            if self.written != self.end:
                raise ValueError(f"output at {offset} follows {self.end} bytes that still wait")
            self._taken_runs.clear()
            self.written = self._taken = self.end = offset
        run = _Run(offset, data)
        self._waiting.append(run)
        self.end = run.end

    def take(self) -> tuple[int, memoryview]:
        """Everything that waits, to be written, and where it begins."""
        run = _Run(self._taken, b"".join(waiting.data for waiting in self._waiting))
        if self._waiting:
            self._waiting.clear()
            self._taken_runs.append(run)
            self._taken = run.end
        return run.start, memoryview(run.data)

    def taken_is_written(self) -> int:
        """What was taken is in files; returns how much that is."""
        done = self._taken - self.written
        self.written = self._taken
        return done

    def trim(self, most_bytes: int) -> None:
        """Lets go of what is written, but for so much at its end."""
        runs = self._taken_runs
        while runs and (
            self.written - runs[0].start > most_bytes or len(runs) > _MOST_WRITTEN_RUNS
        ):
            runs.popleft()

    def cut(self, offset: int, limit: int) -> bytes:
        """Up to `limit` of the bytes in memory, from an offset on."""
        chosen: list[memoryview] = []
        for run in chain(self._taken_runs, self._waiting):
            if limit <= 0:
                break
            if offset < run.end:
                skip = offset - run.start
                piece = memoryview(run.data)[skip : skip + limit]
                chosen.append(piece)
                offset += len(piece)
                limit -= len(piece)
        return b"".join(chosen)
