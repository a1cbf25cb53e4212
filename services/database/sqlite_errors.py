"""What SQLite's errors mean to the person who runs the service."""

import errno
import os
import sqlite3
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from services.database.errors import (
    DatabaseDamaged,
    DatabaseFull,
    DatabaseInUse,
    DatabaseReadOnly,
)
from services.errors import DatabaseUnavailable, HermesError

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
