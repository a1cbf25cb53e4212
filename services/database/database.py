"""Access to a service's database, the same for SQLite and PostgreSQL."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from services.clock import Clock, SystemClock
from services.database.errors import DatabaseFull
from services.database.hints import Hint
from services.database.postgresql import PostgresqlStore
from services.database.sqlite import SqliteStore
from services.errors import DatabaseUnavailable, InvalidArgument
from services.telemetry.metrics import Meter

_T = TypeVar("_T")
FULL_FOR_S = 10.0
"""Longer than the waits between two attempts to write."""


class Database:
    """A service's database, open inside `async with`.

    `fn` is a plain function over a `sqlalchemy.Connection` that runs in one transaction; an
    exception rolls it back. It must touch nothing else: it runs in a thread with SQLite and on the
    event loop with PostgreSQL, again after a deadlock or a lost connection. For expected conflicts,
    use `insert_ignore` or `begin_nested`.
    """

    def __init__(self, url: str, service: str, clock: Clock | None = None) -> None:
        """`url` is `sqlite:///path`, or `postgresql://…`, where `service` is the schema."""
        self._clock = clock or SystemClock()
        self._store = _store(url, service, self._clock)
        self.is_up = True
        """Whether the latest operation succeeded."""
        self._full = "", -FULL_FOR_S

    @property
    def full_reason(self) -> str:
        """What to do if a write found no space a moment ago; else empty."""
        reason, since = self._full
        return reason if self._clock.monotonic() - since < FULL_FOR_S else ""

    @property
    def dialect(self) -> Literal["sqlite", "postgresql"]:
        return self._store.dialect

    async def __aenter__(self) -> Self:
        await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._store.__aexit__(*exc_info)

    async def write(self, fn: Callable[[sa.Connection], _T], notify: str | None = None) -> _T:
        """Run `fn` and return once it is durable; then wake the listeners of `notify`.

        Cancelling the caller does not cancel the commit. After DatabaseUnavailable the outcome is
        unknown.
        """
        with self._watched():
            try:
                return await self._store.write(fn, notify)
            except DatabaseFull as error:
                self._full = error.message, self._clock.monotonic()
                raise

    async def read(self, fn: Callable[[sa.Connection], _T]) -> _T:
        """Run `fn` on one snapshot that holds every write that returned before."""
        with self._watched():
            return await self._store.read(fn)

    async def migrate(self, fn: Callable[[sa.Connection], _T]) -> _T:
        """Run `fn`, which changes the schema, while no other replica does the same."""
        return await self._store.migrate(fn)

    async def notify(self, channel: str) -> None:
        """Wake the channel's listeners in all replicas."""
        await self._store.notify(channel)

    def listen(self, channel: str) -> Hint:
        """Return what wakes on hints; hints can be lost, so wait with a time limit and poll."""
        return self._store.listen(channel)

    @contextmanager
    def _watched(self) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            self.is_up = not isinstance(error, DatabaseUnavailable)
            raise
        self.is_up = True

    def measure(self, meter: Meter) -> None:
        """Export whether it answers; every service queries it at least every few seconds."""
        up = meter.gauge(
            "hermes_database_up", "1 if the latest statement of the database succeeded."
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
