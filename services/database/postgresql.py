"""PostgreSQL behind `Database`: a pool of asynchronous connections, one schema per service."""

import asyncio
import logging
import re
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateSchema
from sqlalchemy.util import greenlet_spawn

from services.database.errors import DatabaseFull, DatabaseReadOnly
from services.database.hints import Hint, Hints
from services.database.lane import log_failure
from services.errors import DatabaseUnavailable
from services.lifecycle import Workers

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_CONNECTIONS = 10
_ATTEMPTS = 5
_CONNECT: dict[str, str | int] = {
    "connect_timeout": 5,
    # Notice a cut-off peer in 15 s rather than two hours.
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}
_SESSION = {
    "statement_timeout": "60s",
    "lock_timeout": "30s",
    # Ends the locks of a process cut off in a transaction, in which we never wait otherwise.
    "idle_in_transaction_session_timeout": "5s",
    # Compiling a plan takes longer than any of our queries.
    "jit": "off",
}
_UNHURRIED = sa.text(
    "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '5min'; "
    "SET LOCAL idle_in_transaction_session_timeout = '5min'"
)
_SERVER = sa.text("SELECT pg_backend_pid()")
_LOCK = sa.text("SELECT pg_advisory_xact_lock(:key)")


class _Engines(Struct, frozen=True):
    pool: "AsyncEngine"
    writing: sa.Engine
    reading: sa.Engine


class PostgresqlStore:
    """A schema of a PostgreSQL database, shared with other replicas of the service."""

    dialect: Literal["postgresql"] = "postgresql"

    def __init__(self, url: sa.URL, service: str) -> None:
        self._url = url.set(drivername="postgresql+psycopg")
        self._service = service
        self._where = f"PostgreSQL at {url.host or 'the local socket'}:{url.port or 5432}"
        self._connect_args = {**_CONNECT, "application_name": f"hermes {service}"}
        self._hints = Hints()
        self._workers = Workers()
        self._running: set[asyncio.Task[Any]] = set()
        self._engines: _Engines | None = None

    async def __aenter__(self) -> Self:
        self._engines = await asyncio.to_thread(self._make_engines)  # imports the driver
        try:
            await self._check_connections()  # a wrong URL shows at once
        except BaseException:
            await self._close()
            raise
        return self

    async def _check_connections(self) -> None:
        """Refuse a pooler that gives a connection to another client after each transaction.

        It would lose the search path and other settings of our connections.
        """
        if await self._explained(
            greenlet_spawn(_changes_servers, self._connected.pool.sync_engine)
        ):
            raise DatabaseUnavailable(
                f"{self._where} is a pooler that shares connections between transactions; connect "
                "to PostgreSQL itself, or let the pooler pool by session (pool_mode = session)"
            )

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def write(self, fn: Callable[[sa.Connection], _T], notify: str | None = None) -> _T:
        return await self._finished(self._transaction(self._connected.writing, fn, notify))

    async def read(self, fn: Callable[[sa.Connection], _T]) -> _T:
        return await self._finished(self._transaction(self._connected.reading, fn))

    async def _finished(self, transaction: Coroutine[Any, Any, _T]) -> _T:
        """Run it in a task of our own: a cancelled one may not return its connection."""
        task = asyncio.create_task(transaction)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)
            raise

    async def migrate(self, fn: Callable[[sa.Connection], _T]) -> _T:
        """Run `fn` in a thread, as Alembic reads files, while holding the schema's lock."""
        return await self._explained(asyncio.to_thread(self._migrate, fn))

    async def notify(self, channel: str) -> None:
        await self.write(lambda _: None, channel)

    def listen(self, channel: str) -> Hint:
        """Return a hint that wakes on each `notify`; the first opens a connection for all."""
        if not self._workers:
            self._workers.start(
                f"hints of the {self._service} database",
                pass_on(self._url, self._connect_args, self._service, self._hints),
            )
        return self._hints.listen(channel)

    async def _close(self) -> None:
        if self._engines is None:
            return
        pool, self._engines = self._engines.pool, None
        async with self._workers:
            if self._running:
                await asyncio.wait(self._running)
        await pool.dispose()

    def _make_engines(self) -> _Engines:
        try:
            from sqlalchemy.ext.asyncio import create_async_engine

            pool = create_async_engine(
                self._url,
                connect_args=self._connect_args,
                pool_size=_CONNECTIONS,
                max_overflow=0,
                pool_timeout=10,
                pool_use_lifo=True,
                hide_parameters=True,
            )
        except ImportError as error:
            raise DatabaseUnavailable(
                "PostgreSQL needs its driver: pip install 'hermes-services[postgres]'"
            ) from error
        event.listen(pool.sync_engine, "connect", self._prepare_session)
        snapshot = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        return _Engines(pool, pool.sync_engine, pool.sync_engine.execution_options(**snapshot))

    @property
    def _connected(self) -> _Engines:
        if self._engines is None:
            raise DatabaseUnavailable(f"{self._where} is closed")
        return self._engines

    def _prepare_session(self, connection: Any, _: object) -> None:
        cursor = connection.cursor()
        for name, value in {"search_path": self._service, **_SESSION}.items():
            cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
        cursor.close()
        connection.commit()

    async def _transaction(
        self, engine: sa.Engine, fn: Callable[[sa.Connection], _T], notify: str | None = None
    ) -> _T:
        # One greenlet for all: an AsyncConnection, with one for each method, takes 40 % more CPU.
        return await self._explained(greenlet_spawn(self._run, engine, fn, notify))

    async def _explained(self, work: Awaitable[_T]) -> _T:
        try:
            return await work
        except SQLAlchemyError as error:
            if (explained := explain(error, self._where)) is None:
                raise
            raise explained from error

    def _run(self, engine: sa.Engine, fn: Callable[[sa.Connection], _T], notify: str | None) -> _T:
        for attempts_left in reversed(range(_ATTEMPTS)):
            with engine.connect() as connection:
                try:
                    value = fn(connection)
                    if notify is not None:
                        connection.execute(NOTIFY, {"service": self._service, "channel": notify})
                except DBAPIError as error:
                    if not attempts_left or not may_repeat(error):
                        raise
                    continue
                # If the connection is lost from here on, the outcome is unknown: never repeat.
                connection.commit()
                return value
        raise AssertionError("the last attempt returns or raises")

    def _migrate(self, fn: Callable[[sa.Connection], _T]) -> _T:
        engine = sa.create_engine(
            self._url, connect_args=self._connect_args, poolclass=NullPool, hide_parameters=True
        )
        event.listen(engine, "connect", self._prepare_session)
        with engine.begin() as connection:
            connection.execute(_UNHURRIED)
            connection.execute(_LOCK, {"key": zlib.crc32(self._service.encode())})
            if not sa.inspect(connection).has_schema(self._service):
                connection.execute(CreateSchema(self._service))
            return fn(connection)


def _changes_servers(engine: sa.Engine) -> bool:
    """Return whether a connection has another server process in its next transaction."""
    with engine.connect() as one, engine.connect() as other:
        before = one.scalar(_SERVER)
        one.rollback()
        other.scalar(_SERVER)  # a pooler gives it the same process
        return one.scalar(_SERVER) != before


def _log_failure(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log_failure(error)


# https://www.postgresql.org/docs/current/errcodes-appendix.html
_UNDONE_BY_THE_SERVER = {"40001", "40P01"}  # serialization failure, deadlock
_TROUBLES: tuple[tuple[set[str], type[DatabaseUnavailable], str], ...] = (
    ({"53100"}, DatabaseFull, "the disk of {} is full; free some, nothing was saved meanwhile"),
    # 0A000: a standby does not support BEGIN READ WRITE.
    ({"25006", "0A000"}, DatabaseReadOnly, "{} is read-only; point the URL at the primary server"),
    # A lock or a statement.
    ({"55P03", "57014"}, DatabaseUnavailable, "{} took too long; look at its load and its locks"),
    (
        _UNDONE_BY_THE_SERVER,
        DatabaseUnavailable,
        "{} is too busy with conflicting changes; try again",
    ),
)
_GONE = ("08", "53", "57P", "25P03")  # connection, resources, shutting down, idle for too long

_REASON = re.compile(r"(?:.*failed: )?(?:FATAL: +)?(.*)")


def may_repeat(error: DBAPIError) -> bool:
    """Return whether the transaction is certainly undone and may succeed if repeated."""
    return error.connection_invalidated or sqlstate_of(error) in _UNDONE_BY_THE_SERVER


def explain(error: SQLAlchemyError, where: str) -> DatabaseUnavailable | None:
    """Return the error as a sentence about the server; None if the server is not to blame."""
    if isinstance(error, PoolTimeout):
        return DatabaseUnavailable(f"all connections to {where} are busy; try again")
    if not isinstance(error, DBAPIError):
        return None
    state = sqlstate_of(error)
    for states, kind, text in _TROUBLES:
        if state in states:
            return kind(text.format(where))
    if state.startswith(_GONE) or error.connection_invalidated or _is_connecting(error):
        return DatabaseUnavailable(
            f"{where} does not answer: {_reason(error)}; "
            "check that it runs and that the database URL is right"
        )
    return None


def sqlstate_of(error: DBAPIError) -> str:
    """Return PostgreSQL's error code; empty if the error did not come from the server."""
    return getattr(error.orig, "sqlstate", None) or ""


def _is_connecting(error: DBAPIError) -> bool:
    # Without a statement, the connection itself failed, which has no code.
    return error.statement is None and isinstance(error, OperationalError)


def _reason(error: DBAPIError) -> str:
    first = str(error.orig).strip().partition("\n")[0]
    match = _REASON.fullmatch(first)
    return (match[1] if match else first).rstrip(".")


_AGAIN_AFTER_S = 1.0

NOTIFY = sa.text("SELECT pg_notify(:service, :channel)")


async def pass_on(url: sa.URL, connect_args: dict[str, str | int], service: str, to: Hints) -> None:
    """Forward the hints of all replicas to our listeners, reconnecting when cut off."""
    from psycopg import Error
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(
        url, connect_args=connect_args, poolclass=NullPool, isolation_level="AUTOCOMMIT"
    )
    while True:
        try:
            async with engine.connect() as connection:
                await connection.exec_driver_sql(f'LISTEN "{service}"')
                to.give_all()  # changes during the gap
                proxied = await connection.get_raw_connection()
                driver = proxied.driver_connection
                assert driver is not None
                async for hint in driver.notifies():
                    to.give(hint.payload)
        except (SQLAlchemyError, Error, OSError) as error:
            _log.warning("hints of the %s database come late: %s", service, type(error).__name__)
        await asyncio.sleep(_AGAIN_AFTER_S)
