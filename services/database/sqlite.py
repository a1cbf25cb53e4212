"""SQLite behind `Database`: one writer thread and a few reader threads.

The writer commits all waiting writes together, as a commit costs an fsync whatever its size. Each
write has its own savepoint, so a failed one undoes nothing else.
"""

import asyncio
import queue
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Self, TypeAlias, TypeVar

import sqlalchemy as sa

from services.clock import Clock
from services.database.hints import Hint, Hints
from services.database.lane import Job, Lane
from services.database.sqlite_workers import LeaseTime, Migrator, Reader, Writer
from services.errors import DatabaseUnavailable
from services.home.file_lock import FileLock
from services.lifecycle import each_of

_T = TypeVar("_T")
_Queue: TypeAlias = queue.SimpleQueue[Job | None]

_READERS = 4
_WRITES_TOGETHER = 256  # at most in one commit, so that the first need not wait long
_BUSY_TIMEOUT_S = 5.0  # only a foreign program can hold SQLite's own locks


class SqliteStore:
    """An SQLite file, which this process has for itself while it is open."""

    dialect: Literal["sqlite"] = "sqlite"

    def __init__(self, path: Path, clock: Clock, busy_timeout_s: float = _BUSY_TIMEOUT_S) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._time = LeaseTime(clock)
        self._lock = FileLock(path.with_name(f"{path.name}.lock"))
        self._hints = Hints()
        self._writes = _Queue()
        self._reads = _Queue()
        self._reading = 0
        self._is_open = False
        self._writer: Lane | None = None
        self._readers: list[Lane] = []

    async def __aenter__(self) -> Self:
        worker = Writer(self._path, self._time, self._busy_timeout_s, self._lock)
        name = f"{self._path.name} writer"
        self._writer = Lane(name, worker, self._writes, self._settle, _WRITES_TOGETHER)
        self._is_open = True
        try:
            await self.write(lambda _: None)  # opens or creates the file and locks it
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def write(self, fn: Callable[[sa.Connection], _T], notify: str | None = None) -> _T:
        return await self._put(self._writes, fn, notify)

    async def read(self, fn: Callable[[sa.Connection], _T]) -> _T:
        outcome = self._put(self._reads, fn)
        self._reading += 1
        if len(self._readers) < min(self._reading, _READERS):
            worker = Reader(self._path, self._time, self._busy_timeout_s)
            name = f"{self._path.name} reader {len(self._readers)}"
            self._readers.append(Lane(name, worker, self._reads, self._settle_reads))
        return await outcome

    async def migrate(self, fn: Callable[[sa.Connection], _T]) -> _T:
        """Run `fn` in a transaction that checks foreign keys at its end only."""
        jobs = _Queue()
        worker = Migrator(self._path, self._time, self._busy_timeout_s)
        lane = Lane(f"{self._path.name} migration", worker, jobs, self._settle)
        try:
            return await self._put(jobs, fn)
        finally:
            await lane.stop()

    async def notify(self, channel: str) -> None:
        self._hints.give(channel)

    def listen(self, channel: str) -> Hint:
        return self._hints.listen(channel)

    async def _close(self) -> None:
        self._is_open = False
        await each_of(reader.stop() for reader in self._readers)
        if self._writer is not None:
            await self._writer.stop()  # last: the last to close folds the log into the file
        self._lock.release()

    def _put(
        self, jobs: _Queue, fn: Callable[[sa.Connection], _T], notify: str | None = None
    ) -> asyncio.Future[_T]:
        if not self._is_open:
            raise DatabaseUnavailable(f"{self._path} is closed")
        outcome: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        jobs.put(Job(fn, outcome, notify))
        return outcome

    def _settle(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.settle()
            if job.notify is not None and job.error is None:
                self._hints.give(job.notify)

    def _settle_reads(self, jobs: Sequence[Job]) -> None:
        self._reading -= len(jobs)
        for job in jobs:
            job.settle()
