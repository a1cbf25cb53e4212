"""What PostgreSQL's errors mean to the person who runs the service."""

import re

from sqlalchemy.exc import (
    DBAPIError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import (
    TimeoutError as PoolTimeout,
)

from services.database.errors import DatabaseFull, DatabaseReadOnly
from services.errors import DatabaseUnavailable

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_UNDONE_BY_THE_SERVER = {"40001", "40P01"}  # serialization failure, deadlock
_FULL = {"53100"}
_READ_ONLY = {"25006", "0A000"}  # the second on a standby: BEGIN READ WRITE is not supported
_BUSY = {"55P03", "57014"}  # a lock or a statement took too long
_GONE = ("08", "53", "57P", "25P03")  # connection, resources, shutting down, idle for too long

_REASON = re.compile(r"(?:.*failed: )?(?:FATAL: +)?(.*)")


def may_repeat(error: DBAPIError) -> bool:
    """Return whether the transaction is certainly undone and could succeed if it ran again."""
    return error.connection_invalidated or sqlstate_of(error) in _UNDONE_BY_THE_SERVER


def explain(error: SQLAlchemyError, where: str) -> DatabaseUnavailable | None:
    """Return the error as a sentence about the server, or None if that is not to blame."""
    if isinstance(error, PoolTimeout):
        return DatabaseUnavailable(f"all connections to {where} are busy; try again")
    if isinstance(error, DBAPIError):
        return _explain_driver(error, where)
    return None


def sqlstate_of(error: DBAPIError) -> str:
    """Return PostgreSQL's code of the error, empty for one that did not come from the server."""
    return getattr(error.orig, "sqlstate", None) or ""


def _explain_driver(error: DBAPIError, where: str) -> DatabaseUnavailable | None:
    state = sqlstate_of(error)
    if state in _FULL:
        return DatabaseFull(f"the disk of {where} is full; free some, nothing was saved meanwhile")
    if state in _READ_ONLY:
        return DatabaseReadOnly(f"{where} is read-only; point the URL at the primary server")
    if state in _BUSY:
        return DatabaseUnavailable(f"{where} took too long; look at its load and its locks")
    if state in _UNDONE_BY_THE_SERVER:
        return DatabaseUnavailable(f"{where} is too busy with conflicting changes; try again")
    if state.startswith(_GONE) or error.connection_invalidated or _is_connecting(error):
        return DatabaseUnavailable(
            f"{where} does not answer: {_reason(error)}; "
            "check that it runs and that the database URL is right"
        )
    return None


def _is_connecting(error: DBAPIError) -> bool:
    # Without a statement it was the connection that failed, which carries no code.
    return error.statement is None and isinstance(error, OperationalError)


def _reason(error: DBAPIError) -> str:
    first = str(error.orig).strip().partition("\n")[0]
    match = _REASON.fullmatch(first)
    return (match[1] if match else first).rstrip(".")
