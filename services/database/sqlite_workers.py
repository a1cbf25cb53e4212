"""The threads' work on an SQLite file: writing, reading, migrating."""

import errno
import os
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from services.clock import Clock
from services.database.errors import DatabaseDamaged, DatabaseFull, DatabaseInUse, DatabaseReadOnly
from services.database.lane import Job
from services.database.sql import SQLITE_NOW, to_microseconds
from services.errors import DatabaseUnavailable, HermesError, Internal
from services.home.file_lock import FileLock, LockHeld

_OLDEST_VERSION = (3, 35)  # RETURNING


class LeaseTime:
    """Wall time that never steps; enough for leases, as one process has the file."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._origin: datetime = clock.now() - timedelta(seconds=clock.monotonic())

    def __call__(self, after_s: float) -> int:
        """Return the time `after_s` seconds from now, in microseconds."""
        return to_microseconds(self._origin + timedelta(seconds=self._clock.monotonic() + after_s))


class Connected(NamedTuple):
    """SQLAlchemy's connection for the jobs, and the driver's one for the worker."""

    sql: sa.Connection
    raw: sqlite3.Connection


class Worker:
    """A connection to the file, opened on first use and again after an error."""

    mode = "rw"
    pragmas: tuple[str, ...] = ()

    def __init__(self, path: Path, time: LeaseTime, busy_timeout_s: float) -> None:
        self._path = path
        self._time = time
        self._busy_timeout_s = busy_timeout_s
        self._connected: Connected | None = None

    def explain(self, error: BaseException) -> BaseException:
        return explain(error, self._path)

    def close(self) -> None:
        if self._connected is not None:
            self._connected.raw.close()
            self._connected = None

    def connected(self) -> Connected:
        if self._connected is None:
            raw = self.open()
            # AUTOCOMMIT: the worker begins and commits itself, not SQLAlchemy.
            engine = sa.create_engine(
                "sqlite://",
                creator=lambda: raw,
                poolclass=NullPool,
                isolation_level="AUTOCOMMIT",
                hide_parameters=True,
            )
            sql = engine.connect()
            sql.detach()
            self._connected = Connected(sql, raw)
        return self._connected

    def open(self) -> sqlite3.Connection:
        raw = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode={self.mode}",
            timeout=self._busy_timeout_s,
            isolation_level=None,
            uri=True,
        )
        try:
            raw.create_function(SQLITE_NOW, 1, self._time)
            for pragma in self.pragmas:
                raw.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:
            raw.close()
            raise
        return raw


class Reader(Worker):
    """Runs each job in its own snapshot."""

    mode = "ro"

    def run(self, jobs: Sequence[Job]) -> None:
        connection, raw = self.connected()
        for job in jobs:
            raw.execute("BEGIN")
            job.run(connection)
            if raw.in_transaction:
                raw.execute("ROLLBACK")


class Writer(Worker):
    """Runs jobs in one transaction, each in a savepoint, and commits them together."""

    pragmas = (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "journal_size_limit = 67108864",
        # Pages. The commit that exceeds it folds the log into the file and waits for it; with
        # SQLite's default of 1,000 that would be every fiftieth message.
        "wal_autocheckpoint = 4000",
    )

    def __init__(self, path: Path, time: LeaseTime, busy_timeout_s: float, lock: FileLock) -> None:
        super().__init__(path, time, busy_timeout_s)
        self._lock = lock

    def run(self, jobs: Sequence[Job]) -> None:
        """Run all jobs, in more than one commit only if SQLite gives one up."""
        connected = self.connected()
        done = 0
        while done < len(jobs):
            done += _commit_together(connected, jobs[done:])

    def open(self) -> sqlite3.Connection:
        """Take the lock and open the file; create it, for its owner only, if missing."""
        if sqlite3.sqlite_version_info < _OLDEST_VERSION:
            oldest = ".".join(map(str, _OLDEST_VERSION))
            raise DatabaseUnavailable(
                f"this Python has SQLite {sqlite3.sqlite_version}; use one with {oldest} or later"
            )
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._lock.acquire()
        except LockHeld as held:
            raise DatabaseInUse(
                f"{self._path} is in use by {held}; stop that `hermes` first, or use it"
            ) from None
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return super().open()


class Migrator(Worker):
    """Runs each job in a transaction that may rebuild tables with references to them."""

    pragmas = ("synchronous = FULL", "foreign_keys = OFF")

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the jobs in turn; undo one that leaves a dangling reference."""
        connection, raw = self.connected()
        for job in jobs:
            raw.execute("BEGIN IMMEDIATE")
            job.run(connection)
            broken = raw.execute("PRAGMA foreign_key_check").fetchone()
            if job.error is None and broken is not None:
                job.error = Internal(f"a migration leaves rows of {broken[0]} without their parent")
            raw.execute("COMMIT" if job.error is None else "ROLLBACK")


def _commit_together(connected: Connected, jobs: Sequence[Job]) -> int:
    """Run the jobs in one transaction; return how many have their result."""
    connection, raw = connected
    alone = len(jobs) == 1
    raw.execute("BEGIN IMMEDIATE")
    for done, job in enumerate(jobs, start=1):
        if not alone:
            raw.execute("SAVEPOINT job")
        job.run(connection)
        if not raw.in_transaction:
            _fail_all(jobs[:done])
            return done
        if job.error is not None:
            raw.execute("ROLLBACK" if alone else "ROLLBACK TO job")
        if not alone:
            raw.execute("RELEASE job")
    if raw.in_transaction:
        raw.execute("COMMIT")
    return len(jobs)


def _fail_all(jobs: Sequence[Job]) -> None:
    """Give the last job's error to all: SQLite undid the whole transaction, as on a full disk."""
    error = jobs[-1].error or Internal("a transaction's function must not commit or roll back")
    for job in jobs:
        job.error = job.error or error


_KIND = 0xFF  # the lower byte of an extended result code


def explain(error: BaseException, path: Path) -> BaseException:
    """Return the error as a sentence about the file, or itself if the database is not to blame."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    explained: HermesError | None = None
    if isinstance(cause, sqlite3.Error):
        explained = _explain_sqlite(cause, path)
        if explained is None and cause is error:  # not from a job's statement: BEGIN or COMMIT
            explained = DatabaseUnavailable(f"{path} could not save this: {error}")
    elif isinstance(cause, OSError):
        explained = _explain_os(cause, path)
    if explained is None:
        return error
    explained.__cause__ = error
    return explained


def _explain_sqlite(error: sqlite3.Error, path: Path) -> HermesError | None:
    match getattr(error, "sqlite_errorcode", 0) & _KIND:
        case sqlite3.SQLITE_FULL:
            return _full(path)
        case sqlite3.SQLITE_IOERR:
            return _full(path) if _is_full(path) else _failed(path, "the disk reports an error")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return _read_only(path)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return DatabaseInUse(f"{path} is locked by another program; close that program")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return DatabaseDamaged(
                f"{path} is damaged or not a database; put a backup in its place, "
                "or move it away to start with an empty one"
            )
        case _:
            return None


def _explain_os(error: OSError, path: Path) -> DatabaseUnavailable:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _full(path)
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return _read_only(path)
    return _failed(path, os.strerror(error.errno) if error.errno else str(error))


def _full(path: Path) -> DatabaseFull:
    return DatabaseFull(f"no space is left for {path}; free some, nothing was saved meanwhile")


def _read_only(path: Path) -> DatabaseReadOnly:
    return DatabaseReadOnly(
        f"{path} cannot be written; check who owns it and its folder, and that the disk is writable"
    )


def _failed(path: Path, what: str) -> DatabaseUnavailable:
    return DatabaseUnavailable(f"{path} cannot be used: {what}; check the disk and the path")


def _is_full(path: Path) -> bool:
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False
