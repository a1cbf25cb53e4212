"""What can be wrong with the database while services use it, and is over again."""

import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import sqlalchemy as sa
from psycopg.errors import DeadlockDetected
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from services.ids import new_id
from tests.support.disks import filled, small_disk
from tests.support.postgres import NOBODY, PostgresServer, postgres_server


@dataclass(frozen=True, slots=True)
class Place:
    """A home whose database will be in trouble."""

    home: Path
    happens: Callable[[], AbstractContextManager[None]]
    """It is in trouble for the time of the block."""
    database_url: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What may happen."""

    place: Callable[[Path, Callable[[], PostgresServer]], AbstractContextManager[Place]]
    complaint: str = ""
    """What is said to whoever asks for something new; empty where that only takes longer."""
    lasts_s: float = 0.0
    """At least."""
    is_full: bool = False
    """Whether space is missing, for which a turn waits."""


@contextmanager
def full_disk(folder: Path, _: Callable[[], PostgresServer]) -> Generator[Place]:
    """The home's disk is full."""
    with small_disk(folder / "home", mib=16) as home:
        yield Place(home, partial(filled, home))


@contextmanager
def locked_files(folder: Path, _: Callable[[], PostgresServer]) -> Generator[Place]:
    """Another program has begun to write to the files."""
    home = folder / "home"
    home.mkdir()

    @contextmanager
    def lock() -> Generator[None]:
        with ExitStack() as stack:
            for name in ("agent", "gateway"):
                file = home / "state" / f"{name}.db"
                other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
                stack.enter_context(closing(other)).execute("BEGIN IMMEDIATE")
            yield

    yield Place(home, lock)


@contextmanager
def full_server(folder: Path, server: Callable[[], PostgresServer]) -> Generator[Place]:
    """The disk of the database is full, that of the server's log is not."""
    with ExitStack() as stack:
        above = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        above.chmod(0o755)
        disk = stack.enter_context(small_disk(above / "disk", mib=32))
        (disk / "kept").mkdir(mode=0o700)
        os.chown(disk / "kept", NOBODY, NOBODY)
        name, postgres = new_id("space"), server()
        postgres.run(f"CREATE TABLESPACE {name} LOCATION '{disk}/kept'")
        stack.callback(postgres.run, f"DROP TABLESPACE {name}")
        url = stack.enter_context(postgres.database(f"TABLESPACE {name}"))
        yield Place(_home(folder), partial(filled, disk), url)


@contextmanager
def read_only_server(folder: Path, _: Callable[[], PostgresServer]) -> Generator[Place]:
    """The server has become a standby, which takes no writes."""
    with postgres_server() as postgres:

        @contextmanager
        def read_only() -> Generator[None]:
            postgres.stop(signal.SIGINT)
            (postgres.data / "standby.signal").touch()
            postgres.start()
            yield
            postgres.run("SELECT pg_promote()")

        yield Place(_home(folder), read_only, postgres.url)


@contextmanager
def slow_server(folder: Path, server: Callable[[], PostgresServer]) -> Generator[Place]:
    """Everything waits for somebody who has locked tables."""
    with server().database() as url:
        engine = sa.create_engine(
            sa.make_url(url).set(drivername="postgresql+psycopg"), poolclass=NullPool
        )

        @contextmanager
        def lock() -> Generator[None]:
            with engine.connect() as connection:
                _lock_tables(connection)
                yield

        yield Place(_home(folder), lock, url)


def _lock_tables(connection: sa.Connection) -> None:
    while True:
        try:
            connection.exec_driver_sql("LOCK TABLE agent.turn, gateway.inbox, gateway.outbox")
        except OperationalError as error:
            if not isinstance(error.orig, DeadlockDetected):
                raise
            connection.rollback()  # a service had one of them and waited for another
        else:
            return


def _home(folder: Path) -> Path:
    home = folder / "home"
    home.mkdir()
    return home


TROUBLES = {
    "sqlite-full": Trouble(full_disk, "no space is left", is_full=True),
    "sqlite-slow": Trouble(locked_files, "is locked by another program", lasts_s=5.5),
    "postgresql-full": Trouble(full_server, "is full", is_full=True),
    "postgresql-read-only": Trouble(read_only_server, "is read-only"),
    "postgresql-slow": Trouble(slow_server, lasts_s=5),
}
"""SQLite says that it can be read only when it is opened: tests/integration has that."""
