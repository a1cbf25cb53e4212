"""The output of commands on disk: read by offset, bounded, and written by one thread.

Output is acknowledged to the box, which then sends more, only once it is in a file. So memory holds
at most one window per command, and acknowledged output survives a crash.
"""

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from executor_service.execs.segments import (
    STREAMS,
    Layout,
    SpoolLimits,
    Write,
    read_file,
    remove,
    segments_in,
    write,
)

_RETRY_S = 1.0
_COMMAND = "c-"

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

OnWritten = Callable[[int, int], None]
"""Called with how far a stream is in its files."""


class StreamBuffer:
    """Bytes that have arrived and are not in files yet."""

    def __init__(self, end: int) -> None:
        self.written = end
        """Bytes before this offset are in files, the others in memory."""
        self._taken = end
        self._bytes = bytearray()

    @property
    def end(self) -> int:
        return self.written + len(self._bytes)

    @property
    def is_waiting(self) -> bool:
        return self._taken < self.end

    def append(self, offset: int, data: memoryview) -> None:
        """Adds bytes; ValueError for a gap while earlier bytes are not written."""
        if offset != self.end:
            if self._bytes:
                raise ValueError(f"output at {offset} follows {self.end} bytes that still wait")
            self.written = self._taken = offset
        self._bytes += data

    def take(self) -> tuple[int, memoryview]:
        """Returns all bytes to be written, and their offset."""
        start, self._taken = self._taken, self.end
        return start, memoryview(self.cut(start, self.end - start))

    def taken_is_written(self) -> int:
        """Drops the bytes that `take` returned; returns how many."""
        done = self._taken - self.written
        self.written = self._taken
        del self._bytes[:done]
        return done

    def cut(self, offset: int, limit: int) -> bytes:
        """Up to `limit` of the bytes in memory, from an offset on."""
        begin = offset - self.written
        return bytes(self._bytes[begin : begin + limit])


class CommandSpool:
    """The output of one command; made by `Spool`."""

    def __init__(
        self, spool: "Spool", folder: Path, layout: Layout, ends: tuple[int, int] | None = None
    ) -> None:
        """Without `ends` the output is as long as its files."""
        self.on_written: OnWritten | None = None
        self._spool = spool
        self._folder = folder
        self._layout = layout
        ends = ends or (layout.end(STREAMS[0]), layout.end(STREAMS[1]))
        self._streams = {
            stream: StreamBuffer(end) for stream, end in zip(STREAMS, ends, strict=True)
        }
        self._flushed = asyncio.Event()
        self._flushed.set()

    def end(self, stream: int) -> int:
        """How many bytes of the stream have arrived."""
        return self._streams[stream].end

    @property
    def ends(self) -> tuple[int, int]:
        """How many bytes of standard output and standard error have arrived."""
        return self.end(STREAMS[0]), self.end(STREAMS[1])

    @property
    def stored_bytes(self) -> int:
        """How many bytes are in files."""
        return self._layout.size

    @property
    def truncated(self) -> bool:
        arrived = sum(self.ends)
        waiting = sum(stream.end - stream.written for stream in self._streams.values())
        return self._layout.size + waiting < arrived

    def append(self, stream: int, offset: int, data: memoryview) -> None:
        """Adds output and returns at once; missing bytes before it are a gap."""
        self._streams[stream].append(offset, data)
        self._flushed.clear()
        self._spool.schedule_write(self)

    async def flush(self) -> None:
        """Waits until all output is in files."""
        await self._flushed.wait()

    async def read(self, stream: int, offset: int, limit: int) -> tuple[int, bytes]:
        """Returns up to `limit` bytes from an offset on, and where they begin.

        They begin later if earlier bytes were dropped; without bytes it is where more will come.
        """
        state = self._streams[stream]
        if offset < state.written:
            found = self._layout.find(stream, offset)
            if found is not None and found.start < state.written:
                start = max(offset, found.start)
                size = min(limit, min(found.end, state.written) - start)
                # Retention may have removed the file of a command that has ended.
                with suppress(FileNotFoundError):
                    path, position = self._folder / found.name, start - found.start
                    return start, await self._spool.do(lambda: read_file(path, position, size))
            offset = state.written
        return min(offset, state.end), state.cut(offset, limit)

    async def read_all(self, stream: int, offset: int, limit: int) -> tuple[int, bytes]:
        """Reads like `read`, across files, up to the first gap."""
        start, data = await self.read(stream, offset, limit)
        pieces, end = [data], start + len(data)
        while data and end - start < limit:
            begin, data = await self.read(stream, end, limit - (end - start))
            if begin != end:
                break
            pieces.append(data)
            end += len(data)
        return start, b"".join(pieces)

    def shrink(self) -> bool:
        """Drops the oldest output that may be dropped; False if there is none."""
        dropped = self._layout.shrink()
        if dropped is not None:
            self._spool.drop(dropped.size, [self._folder / dropped.name])
        return dropped is not None

    def take(self) -> list[Write]:
        writes: list[Write] = []
        for number, state in self._streams.items():
            for segment, piece in self._layout.place(number, *state.take()):
                writes.append(Write(self._folder / segment.name, segment.size, piece))
        return writes

    def mark_written(self) -> None:
        """Marks what `take` returned as written."""
        for number, state in self._streams.items():
            done = state.taken_is_written()
            self._spool.account(done)
            if done and self.on_written is not None:
                self.on_written(number, state.written)
        if dropped := self._layout.surplus():
            size = sum(segment.size for segment in dropped)
            self._spool.drop(size, [self._folder / segment.name for segment in dropped])
        if any(state.is_waiting for state in self._streams.values()):
            self._spool.schedule_write(self)
        else:
            self._flushed.set()


class Spool:
    """The output of all commands, below one folder."""

    def __init__(self, folder: Path, limits: SpoolLimits) -> None:
        self.over_budget = asyncio.Event()
        """Set while more is stored than allowed."""
        self._folder = folder
        self._limits = limits
        self._thread = ThreadPoolExecutor(1, "spool")
        self._dirty: dict[CommandSpool, None] = {}
        self._wake = asyncio.Event()
        self.stored_bytes = 0
        """How many bytes are on disk."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._thread.shutdown(wait=False)

    def account(self, size: int) -> None:
        self.stored_bytes += size
        if self.stored_bytes > self._limits.total_bytes:
            self.over_budget.set()
        else:
            self.over_budget.clear()

    def new(self, sandbox_id: str, exec_id: str) -> CommandSpool:
        return CommandSpool(self, self._folder_of(sandbox_id, exec_id), Layout(self._limits))

    async def load(
        self, sandbox_id: str, exec_id: str, ends: tuple[int, int] | None = None
    ) -> CommandSpool:
        """Loads the spool of an earlier command; without `ends` it is as long as its files."""
        folder = self._folder_of(sandbox_id, exec_id)
        layout = Layout(self._limits, await self.do(lambda: segments_in(folder)))
        return CommandSpool(self, folder, layout, ends)

    async def list_commands(self, sandbox_id: str) -> list[str]:
        """The ids of a sandbox's commands that have output on disk."""
        folder = self._folder / sandbox_id

        def names() -> list[str]:
            return [path.name for path in folder.iterdir()] if folder.is_dir() else []

        return [name.removeprefix(_COMMAND) for name in await self.do(names)]

    async def remove_command(self, sandbox_id: str, exec_id: str) -> None:
        folder = self._folder_of(sandbox_id, exec_id)
        await self.do(lambda: shutil.rmtree(folder, ignore_errors=True))

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self.do(lambda: shutil.rmtree(self._folder / sandbox_id, ignore_errors=True))

    async def remove_all_but(self, sandbox_ids: Iterable[str]) -> None:
        """Deletes the output of all other sandboxes."""
        kept = frozenset(sandbox_ids)

        def remove() -> None:
            for folder in self._folder.iterdir() if self._folder.is_dir() else ():
                if folder.name not in kept:
                    shutil.rmtree(folder, ignore_errors=True)

        await self.do(remove)

    async def run(self) -> None:
        """Writes output, until cancelled; while the disk is full, commands wait."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            spools, self._dirty = list(self._dirty), {}
            await self._write([one for spool in spools for one in spool.take()])
            for spool in spools:
                spool.mark_written()

    async def _write(self, writes: list[Write]) -> None:
        why = "output cannot be written; commands wait"
        await insist(lambda: self.do(lambda: write(writes)), OSError, why)

    def schedule_write(self, spool: CommandSpool) -> None:
        self._dirty[spool] = None
        self._wake.set()

    def drop(self, size: int, paths: list[Path]) -> None:
        self.account(-size)
        self._thread.submit(remove, paths)

    async def do(self, job: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    def _folder_of(self, sandbox_id: str, exec_id: str) -> Path:
        # An exec id may be `.` or `..`.
        return self._folder / sandbox_id / f"{_COMMAND}{exec_id}"


async def insist(work: Callable[[], Awaitable[object]], failure: type[Exception], why: str) -> None:
    """Repeats something until it succeeds, and logs once that it waits."""
    is_announced = False
    while True:
        try:
            await work()
        except failure as error:
            if not is_announced:
                _log.warning("%s: %s", why, error)
            is_announced = True
        else:
            return
        await asyncio.sleep(_RETRY_S)
