"""How the output of one command lies on disk: which file has which bytes, and which go first.

Each of the two streams is a row of files of one segment each, named after the offset of their
first byte. The first segments of a command are kept; of the later ones the oldest go when there
are too many, whichever stream they belong to, so that the beginning and the end of a long output
stay.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

MIB = 1024 * 1024
STREAMS = (1, 2)
"""Standard output and standard error, by their descriptor in the command."""
_HEAD_MARK = "first"


class CommandLimits(Struct, frozen=True):
    """How much of one command's output is kept."""

    segment_bytes: int = MIB
    first_segments: int = 8
    """Kept to the end."""
    segments: int = 32
    """In all; the last ones of an output are a ring."""


class Segment(Struct):
    """One file."""

    stream: int
    start: int
    first: bool
    """Whether it belongs to the beginning that is kept."""
    size: int = 0

    @property
    def end(self) -> int:
        """The offset behind its last byte."""
        return self.start + self.size

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.stream}-{self.start}-{_HEAD_MARK if self.first else 'last'}"

    @classmethod
    def found(cls, name: str, size: int) -> "Segment | None":
        """The segment in a file; None if the file is none of ours."""
        match name.split("-"):
            case [stream, start, mark] if stream in {"1", "2"} and start.isdecimal():
                return cls(int(stream), int(start), mark == _HEAD_MARK, size)
            case _:
                return None


class Placed(Struct, frozen=True):
    """Where a run of bytes goes."""

    segment: Segment
    position: int
    """In the segment's file."""
    size: int


class Layout:
    """The segments of one command."""

    def __init__(self, limits: CommandLimits, found: Iterable[Segment] = ()) -> None:
        """`found` are the segments on disk, those that were written to last at the end."""
        self._limits = limits
        self._streams: dict[int, list[Segment]] = {stream: [] for stream in STREAMS}
        self._ring: deque[Segment] = deque()
        self._first_count = 0
        for segment in found:
            self._streams[segment.stream].append(segment)
            if segment.first:
                self._first_count += 1
            else:
                self._ring.append(segment)
        for segments in self._streams.values():
            segments.sort(key=lambda segment: segment.start)

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for row in self._streams.values() for segment in row)

    def end(self, stream: int) -> int:
        """The offset behind the last stored byte of a stream; 0 where nothing is stored."""
        row = self._streams[stream]
        return row[-1].end if row else 0

    def place(self, stream: int, offset: int, size: int) -> Iterator[Placed]:
        """Makes room for bytes that follow the stream's last ones, or leave a gap after them."""
        row = self._streams[stream]
        while size:
            last = row[-1] if row else None
            if last is None or last.end != offset or not self._room(last):
                last = self._new_segment(stream, offset)
            taken = min(size, self._room(last))
            yield Placed(last, last.size, taken)
            last.size += taken
            offset += taken
            size -= taken

    def find(self, stream: int, offset: int) -> Segment | None:
        """The segment that has a byte, or else the next one after it."""
        return next((found for found in self._streams[stream] if found.end > offset), None)

    def surplus(self) -> list[Segment]:
        """Drops the oldest of the last segments as long as there are too many."""
        dropped: list[Segment] = []
        while self._first_count + len(self._ring) > self._limits.segments and self._ring:
            dropped.append(self._drop())
        return dropped

    def shrink(self) -> Segment | None:
        """Drops the oldest of the last segments, but never the one that is being written."""
        return self._drop() if len(self._ring) > len(STREAMS) else None

    def _drop(self) -> Segment:
        segment = self._ring.popleft()
        self._streams[segment.stream].remove(segment)
        return segment

    def _room(self, segment: Segment) -> int:
        # Segments end at multiples of their size, wherever the first one began.
        whole = self._limits.segment_bytes
        return whole - segment.start % whole - segment.size

    def _new_segment(self, stream: int, offset: int) -> Segment:
        first = self._first_count < self._limits.first_segments
        segment = Segment(stream, offset, first)
        self._streams[stream].append(segment)
        if first:
            self._first_count += 1
        else:
            self._ring.append(segment)
        return segment


class Write(Struct, frozen=True):
    """Bytes on their way into one file."""

    name: str
    position: int
    data: memoryview


class Batch(Struct, frozen=True):
    """What is to be done for one command."""

    folder: Path
    writes: list[Write]
    removes: list[str]


def write_batches(batches: list[Batch]) -> None:
    """Write, then remove; what fails may be done again as a whole."""
    for batch in batches:
        for write in batch.writes:
            _write_file(batch.folder / write.name, write)
        for name in batch.removes:
            (batch.folder / name).unlink(missing_ok=True)


def _write_file(path: Path, write: Write) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, flags, 0o600)
    try:
        position, data = write.position, write.data
        while data:
            done = os.pwrite(fd, data, position)
            position, data = position + done, data[done:]
    finally:
        os.close(fd)


def read_file(path: Path, position: int, size: int) -> bytes:
    """Bytes of a segment, by their position in its file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, position)
    finally:
        os.close(fd)


def segments_in(folder: Path) -> list[Segment]:
    """The segments of a command, those that were written to last at the end."""
    try:
        with os.scandir(folder) as scan:
            files = [(entry.name, entry.stat()) for entry in scan]
    except FileNotFoundError:
        return []
    files.sort(key=lambda file: file[1].st_mtime_ns)
    found = (Segment.found(name, status.st_size) for name, status in files)
    return [segment for segment in found if segment is not None]
