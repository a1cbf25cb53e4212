"""The one way to a service's database, the same for SQLite and PostgreSQL."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from services.clock import Clock, SystemClock
from services.database.hints import Hint
from services.database.postgresql import PostgresqlStore
from services.database.sqlite import SqliteStore
from services.errors import DatabaseUnavailable, InvalidArgument
from services.telemetry.metrics import Meter

_T = TypeVar("_T")


class Database:
    """A service's database, open inside `async with`.

    `fn` is always a plain function over a `sqlalchemy.Connection`, run in one transaction: what it
    returns is returned, what it raises undoes the transaction. It touches nothing but the
    connection, since it runs in a thread with SQLite, on the event loop with PostgreSQL, and there
    again after a deadlock or a lost connection. A conflict that it expects it avoids with
    `insert_ignore` or undoes with `begin_nested`.
    """

    def __init__(self, url: str, service: str, clock: Clock | None = None) -> None:
        """Name it: `sqlite:///path`, or `postgresql://…` and there the schema `service`."""
        self._store = _store(url, service, clock or SystemClock())
        self.is_up = True
        """Whether it did what was last asked of it."""

    @property
    def dialect(self) -> Literal["sqlite", "postgresql"]:
        """Which of the two it is."""
        return self._store.dialect

    async def __aenter__(self) -> Self:
        await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._store.__aexit__(*exc_info)

    async def write(self, fn: Callable[[sa.Connection], _T], notify: str | None = None) -> _T:
        """Run `fn` and return once it is durable; then hint to the listeners of `notify`.

        Cancelling the caller does not cancel the commit. DatabaseUnavailable means that it is not
        known whether it was saved.
        """
        with self._watched():
            return await self._store.write(fn, notify)

    async def read(self, fn: Callable[[sa.Connection], _T]) -> _T:
        """Run `fn` on one snapshot that holds every write that returned before."""
        with self._watched():
            return await self._store.read(fn)

    async def migrate(self, fn: Callable[[sa.Connection], _T]) -> _T:
        """Run `fn`, which changes the schema, while no other replica does the same."""
        return await self._store.migrate(fn)

    async def notify(self, channel: str) -> None:
        """Hint to the channel's listeners, of all replicas, that something has changed."""
        await self._store.notify(channel)

    def listen(self, channel: str) -> Hint:
        """Return what wakes on hints, which may be lost: wait on it with a time limit, and look."""
        return self._store.listen(channel)

    @contextmanager
    def _watched(self) -> Generator[None]:
        """Note whether the database does something."""
        try:
            yield
        except BaseException as error:
            self.is_up = not isinstance(error, DatabaseUnavailable)
            raise
        self.is_up = True

    def measure(self, meter: Meter) -> None:
        """Show whether it answers; every service asks something of it at least each few seconds."""
        up = meter.gauge(
            "hermes_database_up", "Whether the database did what was last asked of it."
        )
        up.set_function(lambda: float(self.is_up))


def _store(url: str, service: str, clock: Clock) -> SqliteStore | PostgresqlStore:
    try:
        parsed = sa.make_url(url)
    except ArgumentError:
        raise InvalidArgument(_WANTED) from None
    match parsed.get_backend_name(), parsed.database:
        case "sqlite", str(path) if path and path != ":memory:":
            return SqliteStore(Path(path), clock)
        case "postgresql" | "postgres", _:
            return PostgresqlStore(parsed, service)
        case _:
            raise InvalidArgument(_WANTED)


_WANTED = "the database's URL must be sqlite:///path/of/the/file or postgresql://user@host/name"
