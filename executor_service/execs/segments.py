"""How one command's output lies on disk, and which parts are dropped first.

Each stream is a row of segment files, named after the offset of their first byte. The first
segments of each stream are kept. When there are too many, the oldest later segment of the longer
stream is dropped, so the beginning and the end of a long output stay.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

MIB = 1024 * 1024
STREAMS = (1, 2)
"""Standard output and standard error, by their descriptor in the command."""


class SpoolLimits(Struct, frozen=True):
    """How much output is kept."""

    segment_bytes: int = MIB
    first_segments: int = 8
    """Per stream; these are never dropped."""
    segments: int = 32
    """Most segments of both streams of a command."""
    total_bytes: int = 4 * 1024 * MIB
    """Most output of all commands together."""


class Segment(Struct):
    """One file."""

    stream: int
    start: int
    size: int = 0

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def name(self) -> str:
        return f"{self.stream}-{self.start}"


class Layout:
    """The segments of one command."""

    def __init__(self, limits: SpoolLimits, found: Iterable[Segment] = ()) -> None:
        """`found` lists the segments on disk."""
        self._limits = limits
        self._streams: dict[int, list[Segment]] = {stream: [] for stream in STREAMS}
        for segment in sorted(found, key=lambda segment: segment.start):
            self._streams[segment.stream].append(segment)

    @property
    def size(self) -> int:
        return sum(segment.size for row in self._streams.values() for segment in row)

    def end(self, stream: int) -> int:
        """The offset after the last stored byte of a stream; 0 if nothing is stored."""
        row = self._streams[stream]
        return row[-1].end if row else 0

    def place(
        self, stream: int, offset: int, data: memoryview
    ) -> Iterator[tuple[Segment, memoryview]]:
        """Splits bytes into segments; missing bytes before them are a gap.

        Write each piece at the end of its segment; it is counted when the next one is taken.
        """
        row = self._streams[stream]
        while data:
            if not row or row[-1].end != offset or not self._room(row[-1]):
                row.append(Segment(stream, offset))
            piece = data[: self._room(row[-1])]
            yield row[-1], piece
            row[-1].size += len(piece)
            offset += len(piece)
            data = data[len(piece) :]

    def find(self, stream: int, offset: int) -> Segment | None:
        """The segment with a byte, or the next one after it."""
        return next((found for found in self._streams[stream] if found.end > offset), None)

    def surplus(self) -> list[Segment]:
        dropped: list[Segment] = []
        while sum(map(len, self._streams.values())) > self._limits.segments:
            if (segment := self.shrink()) is None:
                break
            dropped.append(segment)
        return dropped

    def shrink(self) -> Segment | None:
        """Drops the oldest of the later segments, never the one being written."""
        first_bytes = self._limits.first_segments * self._limits.segment_bytes
        last = [
            [one for one in row[:-1] if one.start >= first_bytes] for row in self._streams.values()
        ]
        longest = max(last, key=len)
        if not longest:
            return None
        self._streams[longest[0].stream].remove(longest[0])
        return longest[0]

    def _room(self, segment: Segment) -> int:
        # Segments end at multiples of their size, wherever the first one began.
        whole = self._limits.segment_bytes
        return whole - segment.start % whole - segment.size


class Write(Struct, frozen=True):
    """Bytes to write to one file."""

    path: Path
    position: int
    data: memoryview


def write(writes: Iterable[Write]) -> None:
    """Write to files; a failed call can be repeated as a whole."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    for one in writes:
        try:
            fd = os.open(one.path, flags, 0o600)
        except FileNotFoundError:
            one.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(one.path, flags, 0o600)
        try:
            position, data = one.position, one.data
            while data:
                done = os.pwrite(fd, data, position)
                position, data = position + done, data[done:]
        finally:
            os.close(fd)


def remove(paths: Iterable[Path]) -> None:
    """Remove files that may be gone."""
    for path in paths:
        path.unlink(missing_ok=True)


def read_file(path: Path, position: int, size: int) -> bytes:
    """Read bytes of a segment, by their position in its file."""
    with path.open("rb", buffering=0) as file:
        return os.pread(file.fileno(), size, position)


def segments_in(folder: Path) -> list[Segment]:
    """Return the segments of a command."""
    try:
        with os.scandir(folder) as scan:
            sizes = {entry.name: entry.stat().st_size for entry in scan}
    except FileNotFoundError:
        return []
    return [Segment(*map(int, name.split("-")), size=size) for name, size in sizes.items()]
