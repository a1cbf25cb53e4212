"""The executor's journal: who has which box, and how commands ended.

One SQLite file, locked by one process and written by one thread. A claim is synced to disk before
the caller gets it. What a box can report again is not synced, but survives a crash of this process.
"""

import asyncio
import contextlib
import hmac
import secrets
import sqlite3
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeAlias, TypeVar

from msgspec import json

from executor_service.errors import JournalUnusable
from executor_service.records.sandboxes import Claim, CommandRecord
from executor_service.supervisor.processes import boot_id
from services.errors import DatabaseUnavailable
from services.ids import new_id
from services.validation import decode

_SCHEMA = """
CREATE TABLE installation (owner TEXT NOT NULL, box_key BLOB NOT NULL);
CREATE TABLE claim (sandbox_id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE command (
    sandbox_id TEXT, exec_id TEXT, record TEXT NOT NULL, PRIMARY KEY (sandbox_id, exec_id)
) WITHOUT ROWID;
CREATE TABLE workspace (workspace_id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID
"""
_VERSION = 1
_LOCK_TIMEOUT_S = 2.0

_T = TypeVar("_T")
Job: TypeAlias = Callable[[sqlite3.Connection], _T]


class Journal:
    """Claims, workspaces and commands; enter it to hold the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "journal")
        self._connection: sqlite3.Connection | None = None
        self.owner = ""
        """The name of this installation, which labels its boxes."""
        self._key = b""
        self.boot_id = ""
        """Identifies this boot of the machine; empty if unknown."""

    def box_secret(self, box_key: str) -> str:
        """The secret by which a box's supervisor knows its executor."""
        return hmac.digest(self._key, box_key.encode(), "sha256").hex()

    def lease_token(self, sandbox_id: str, epoch: int) -> str:
        """The token of a sandbox's lease in an epoch, 64 hex digits; it is not stored."""
        return hmac.digest(self._key, f"lease {sandbox_id} {epoch}".encode(), "sha256").hex()

    async def __aenter__(self) -> Self:
        try:
            self.owner, self._key = await self._do(self._open)
        except (sqlite3.Error, OSError, JournalUnusable) as error:
            await self._close()
            raise self._unusable(error) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def put_claim(self, claim: Claim) -> None:
        """Stores a claim and syncs it, with everything written before."""
        row = (claim.sandbox_id, json.encode(claim).decode())
        query = "REPLACE INTO claim VALUES (?, ?)"
        await self.write(lambda db: db.execute(query, row), synced=True)

    async def claims(self) -> list[Claim]:
        def read(db: sqlite3.Connection) -> list[Claim]:
            rows = db.execute("SELECT record FROM claim")
            return [decode(record, Claim) for (record,) in rows]

        return sorted(await self.read(read), key=lambda claim: claim.claimed_at)

    async def forget_sandbox(self, sandbox_id: str) -> None:
        def write(db: sqlite3.Connection) -> None:
            for table in ("claim", "command"):
                db.execute(f"DELETE FROM {table} WHERE sandbox_id = ?", (sandbox_id,))  # noqa: S608

        await self.write(write)

    async def put_commands(self, records: Iterable[CommandRecord]) -> None:
        rows = [(one.sandbox_id, one.exec_id, json.encode(one).decode()) for one in records]
        query = "REPLACE INTO command VALUES (?, ?, ?)"
        await self.write(lambda db: db.executemany(query, rows))

    async def commands(self) -> list[CommandRecord]:
        query = "SELECT record FROM command"
        rows = await self.read(lambda db: db.execute(query).fetchall())
        return [decode(record, CommandRecord) for (record,) in rows]

    async def forget_command(self, sandbox_id: str, exec_id: str) -> None:
        query = "DELETE FROM command WHERE sandbox_id = ? AND exec_id = ?"
        await self.write(lambda db: db.execute(query, (sandbox_id, exec_id)))

    async def write(self, job: Job[object], synced: bool = False) -> None:
        """Runs a job in one transaction; fails with DatabaseUnavailable."""

        def write() -> None:
            with self._transaction(synced) as db:
                job(db)

        try:
            await self._do(write)
        except sqlite3.Error as error:
            message = f"the executor's journal {self._path} cannot be written: {error}"
            raise DatabaseUnavailable(message) from error

    async def read(self, job: Job[_T]) -> _T:
        """Runs a query; fails with DatabaseUnavailable."""
        try:
            return await self._do(lambda: job(self._db))
        except sqlite3.Error as error:
            message = f"the executor's journal {self._path} cannot be read: {error}"
            raise DatabaseUnavailable(message) from error

    async def _do(self, job: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("it is not open")
        return self._connection

    @contextlib.contextmanager
    def _transaction(self, synced: bool) -> Generator[sqlite3.Connection]:
        db = self._db
        db.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _open(self) -> tuple[str, bytes]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        with contextlib.suppress(OSError):  # not every system has one
            self.boot_id = boot_id()
        self._connection = sqlite3.connect(
            self._path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        # Locked while this process lives; the kernel releases it after a crash.
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._connection.execute("PRAGMA journal_mode = WAL")
        with self._transaction(synced=True) as db:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            if version not in (0, _VERSION):
                raise JournalUnusable("another version of Hermes has written it")
            if version == 0:
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                row = (new_id("own"), secrets.token_bytes(32))
                db.execute("INSERT INTO installation VALUES (?, ?)", row)
            db.execute(f"PRAGMA user_version = {_VERSION}")
            return db.execute("SELECT owner, box_key FROM installation").fetchone()

    async def _close(self) -> None:
        if self._connection is not None:
            await self._do(self._connection.close)
            self._connection = None
        self._thread.shutdown(wait=False)

    def _unusable(self, error: Exception) -> JournalUnusable:
        if "locked" in str(error):
            return JournalUnusable(f"another executor uses {self._path}; stop that one first")
        return JournalUnusable(
            f"{self._path} cannot be used: {error}; move it away to start with an empty journal "
            "(workspaces stay on disk)"
        )
