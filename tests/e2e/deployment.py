"""Hermes as it is deployed: in one process on a Unix socket, or as four services over TCP."""

import asyncio
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.e2e.home import Home
from tests.e2e.processes import check_nothing_left, end_users_of
from tests.support.ports import free_port

_T = TypeVar("_T")

SERVICES = ("agent", "executor", "gateway", "scheduler")
READY_TIMEOUT_S = 45.0
STOP_TIMEOUT_S = 30.0


class Server:
    """One server process, which may be killed and started again."""

    def __init__(self, name: str, home: Home, *argv: str) -> None:
        self.name = name
        self.home = home
        self._argv = argv
        self._stderr = home.path.parent / f"{name}.stderr"
        self._read_from = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None, "the server was started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process."""
        self._read_from = len(self.said())
        with self._stderr.open("a", encoding="utf-8") as stderr:
            self._process = self.home.spawn(*self._argv, stdout=subprocess.DEVNULL, stderr=stderr)

    def wait_ready(self) -> None:
        """Return once it says that it is ready."""
        assert self._process is not None, "the server was started"
        end = time.monotonic() + READY_TIMEOUT_S
        while "ready on " not in (said := self.said()[self._read_from :]):
            assert self._process.poll() is None, f"{self.name} ended: {said}"
            assert time.monotonic() < end, f"{self.name} is not ready: {said}"
            time.sleep(0.01)

    def stop(self) -> int:
        """Ask it to stop; its exit status."""
        assert self._process is not None, "the server was started"
        self._process.send_signal(signal.SIGTERM)
        return self.wait(STOP_TIMEOUT_S)

    def wait(self, timeout_s: float) -> int:
        """Its exit status once it has ended by itself."""
        assert self._process is not None, "the server was started"
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def said(self) -> str:
        """All that it wrote to standard error."""
        return self._stderr.read_text(encoding="utf-8") if self._stderr.exists() else ""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Running services, and the home from which commands reach them."""

    client: Home
    servers: Mapping[str, Server]
    folder: Path

    @property
    def pids(self) -> list[int]:
        """The ids of the server processes."""
        return [server.pid for server in self.servers.values()]

    def start(self) -> None:
        """Start what does not run, and return when all are ready."""
        started = [server for server in self.servers.values() if not server.is_running]
        for server in started:
            server.start()
        for server in started:
            server.wait_ready()

    def stop(self) -> None:
        """Stop all; each must end well, and must have had nothing to be ashamed of."""
        statuses = {name: server.stop() for name, server in self.servers.items()}
        said = self.logs()
        stderr = "".join(server.said()[-2000:] for server in self.servers.values())
        assert statuses == dict.fromkeys(self.servers, 0), f"{statuses}\n{said[-4000:]}\n{stderr}"
        assert "Traceback" not in said, said[said.index("Traceback") - 1000 :][:4000]

    def logs(self) -> str:
        """What all have said, to their log files or where they were started."""
        return "".join(server.said() + server.home.logs() for server in self.servers.values())

    def kill(self) -> None:
        """End all at once."""
        for server in self.servers.values():
            server.kill()


LEAVE_NOTHING = {"HERMES_KEEP_SANDBOXES": "false"}
"""Sandboxes end with their executor, so that a test can see that all of them do."""


def one_process(
    folder: Path, model_url: str, config: Mapping[str, Any], **variables: str
) -> Deployment:
    """`hermes up` in a home of its own."""
    settings = {**model_at(model_url), "HERMES_METRICS_PORT": "0", **LEAVE_NOTHING, **variables}
    home = Home.make(folder, config, **settings)
    return Deployment(home, {"up": Server("up", home, "up", "--no-chat")}, folder)


def four_processes(
    folder: Path, model_url: str, config: Mapping[str, Any], **variables: str
) -> Deployment:
    """A process for each service, with nothing in common but the network and a CA."""
    addresses = {f"HERMES_{name.upper()}_ADDRESS": f"127.0.0.1:{free_port()}" for name in SERVICES}
    common = {**addresses, **LEAVE_NOTHING, **variables}
    certs = make_certificates(folder, SERVICES)
    client = Home.make(folder / "client", None, **common, **tls_of(certs, "operator"))
    servers: dict[str, Server] = {}
    for name in SERVICES:
        own = {"HERMES_METRICS_PORT": "0", **tls_of(certs, name)}
        own |= model_at(model_url) if name == "agent" else {}
        home = Home.make(folder / name, config, **{**own, **common})
        servers[name] = Server(name, home, "serve", name)
    return Deployment(client, servers, folder)


@contextmanager
def running(deployment: Deployment) -> Generator[Deployment]:
    """A deployment from its start to its good end."""
    try:
        deployment.start()
        yield deployment
        deployment.stop()
        check_nothing_left(deployment.folder)
    finally:
        deployment.kill()
        end_users_of(deployment.folder)


def model_at(url: str) -> dict[str, str]:
    """The settings of an agent whose model is there."""
    return {
        "HERMES_BASE_URL": url,
        "HERMES_MODEL": "scripted",
        "HERMES_API_KEY": "test-key",
        "HERMES_SKILLS_BUNDLED": "false",
    }


def make_certificates(folder: Path, services: Sequence[str], **names: Sequence[str]) -> Path:
    """Make a CA and certificates with the command that users have: for services and an operator.

    A service that is not called by the name of this machine has names.
    """
    certs = folder / "certs"
    maker = Home.make(folder / "maker")
    issued = [["issue", one, *_names(names.get(one, ()))] for one in (*services, "operator")]
    for argv in (["init"], *issued):
        made = maker.run("certs", *argv, "--folder", certs)
        assert made.status == 0, made.err
    return certs


def tls_of(certs: Path, identity: str) -> dict[str, str]:
    """The settings of a service with its certificate."""
    return {
        "HERMES_TLS_CA": str(certs / "ca.crt"),
        "HERMES_TLS_CERTIFICATE": str(certs / f"{identity}.crt"),
        "HERMES_TLS_KEY": str(certs / f"{identity}.key"),
    }


def _names(names: Sequence[str]) -> list[str]:
    return [word for name in names for word in ("--name", name)]


@asynccontextmanager
async def beside(context: AbstractContextManager[_T]) -> AsyncGenerator[_T]:
    """What starts and ends beside the servers that this process has for it."""
    entered = await asyncio.to_thread(context.__enter__)
    try:
        yield entered
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)
