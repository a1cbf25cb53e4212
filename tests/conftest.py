"""Fixtures that the whole suite shares."""

import importlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from services.database import Database
from tests.support.leftovers import Leftovers
from tests.support.postgres import PostgresServer, postgres_server

ROOT = Path(__file__).parent

# What is done once, and late, would block the loop of whichever test is first.
for client in ("httpx", "httpx2"):
    importlib.import_module(client)
tempfile.gettempdir()


_LONGEST_FIRST = ("chaos", "security", "e2e", "contract", "integration")
"""Folders whose files begin first, so that no process is left alone with a long one."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Give the run a folder for its files, and have it cleaned up at the end."""
    if hasattr(config, "workerinput"):
        return  # the process that leads the run does it
    leftovers = Leftovers()
    config.pluginmanager.register(leftovers)
    config.option.basetemp = config.option.basetemp or leftovers.folder / "t"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes for each processor, as most tests wait."""
    return min(2 * (os.cpu_count() or 1), 6)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the checks of the architecture to one process, which parses the repository once."""
    if config.getoption("dist") != "loadfile":
        return None
    scheduler: Any = importlib.import_module("xdist.scheduler").LoadFileScheduling

    class ByFile(scheduler):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "architecture" if file.startswith("tests/architecture/") else file

    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that take long first."""

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(ROOT).parts[0]
        return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)

    items.sort(key=rank)


@pytest.fixture(scope="session", autouse=True)
def signals_are_heard() -> None:
    """Let SIGINT and SIGHUP end what they end at a terminal, however this suite was started.

    A job in a shell's background ignores the one, one under nohup the other, and so would every
    program that a test starts.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def grpc_runs() -> Iterator[None]:
    """Keep gRPC's poller, whose end, after the last of its objects, blocks the event loop."""
    aio: Any = grpc.aio  # the stubs leave these two out
    aio.init_grpc_aio()
    yield
    aio.shutdown_grpc_aio()


@pytest.fixture(autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    """Fail a test in which something blocks the event loop."""
    with blockbuster_ctx() as active:
        for function in active.functions.values():
            # What a test that takes too long was doing is to be seen.
            function.can_block_in("pytest_timeout.py", "timeout_sigalrm")
            # The event loop that Modal's SDK has to itself, in a thread of its own.
            function.can_block_in("synchronicity/synchronizer.py", "thread_inner")
            # nio keeps the keys of encrypted rooms in a small SQLite file of its own.
            function.can_block_in("nio/store/database.py", ("inner", "__post_init__"))
        yield active


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL server; skipped where it is not installed."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a PostgreSQL database in which each service has its tables."""
    with postgres.migrated() as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty PostgreSQL database, to be migrated or for tables of the test's own."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path}/test.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a new SQLite file, and of a PostgreSQL database where services have tables."""
    fixture = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    return request.getfixturevalue(fixture)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, of each kind in turn."""
    fixture = "sqlite_url" if request.param == "sqlite" else "empty_postgres_url"
    return request.getfixturevalue(fixture)


@pytest.fixture(params=["files", "rows"])
def profiles_url(request: pytest.FixtureRequest) -> str:
    """Where profiles are kept, each kind in turn: empty for files, else a PostgreSQL database."""
    return "" if request.param == "files" else request.getfixturevalue("postgres_url")


@pytest.fixture
async def database(empty_database_url: str) -> AsyncIterator[Database]:
    """An open database without tables, of each kind in turn."""
    async with Database(empty_database_url, "test") as opened:
        yield opened
