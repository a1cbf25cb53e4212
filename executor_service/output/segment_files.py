"""The files of segments. Everything here blocks, and runs in the thread of the spool."""

import os
from pathlib import Path

from msgspec import Struct

from executor_service.output.segments import Segment


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
