"""Damage to a SQLite file while it is served from, and its repair."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path


@asynccontextmanager
async def damaged_table(path: Path, table: str) -> AsyncGenerator[None]:
    """A table's first page is not what was written, for the time of the block."""
    offset, page = await asyncio.to_thread(_found, path, table)
    await asyncio.to_thread(_overwrite, path, offset, b"\xff" * len(page))
    try:
        yield
    finally:
        await asyncio.to_thread(_overwrite, path, offset, page)


def _found(path: Path, table: str) -> tuple[int, bytes]:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        size = database.execute("PRAGMA page_size").fetchone()[0]
        named = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        offset = (database.execute(named, (table,)).fetchone()[0] - 1) * size
    with path.open("rb") as file:
        file.seek(offset)
        return offset, file.read(size)


def _overwrite(path: Path, offset: int, page: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(page)
    with closing(sqlite3.connect(path)) as database, database:
        # A page is read again once somebody else has written.
        database.execute("CREATE TABLE IF NOT EXISTS other (number INTEGER)")
        database.execute("INSERT INTO other VALUES (1)")
