"""Executors on this machine that share a name, each at a loopback address of its own.

Nothing else of Hermes runs: their sandboxes are claimed as an agent does.
"""

import asyncio
import subprocess
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from executor_service.backends import BACKENDS, Site
from executor_service.config import ExecutorConfig
from executor_service.journal import Journal
from executor_service.supervisor_zipapp import build_zipapp
from services.addresses import TcpAddress
from services.auth import Identity
from services.certs import files_of
from services.channels import Channels
from tests.boxes import new_spec
from tests.e2e.deployment import (
    LEAVE_NOTHING,
    Deployment,
    Server,
    make_certificates,
    running,
    tls_of,
)
from tests.e2e.home import Home
from tests.e2e.nodes import HOSTS_FILE, bound
from tests.executor_client import Client
from tests.executors import executor_settings
from tests.ports import free_port

NAME = "executors.test"
HOSTS = ("127.0.0.11", "127.0.0.12")


@dataclass(frozen=True, slots=True)
class ExecutorPair:
    """Two executors, and the home of their operator."""

    deployment: Deployment
    port: int

    @property
    def client(self) -> Home:
        """From where an operator asks them."""
        return self.deployment.client

    @property
    def endpoints(self) -> tuple[str, str]:
        """Where each alone is reached."""
        return (f"{HOSTS[0]}:{self.port}", f"{HOSTS[1]}:{self.port}")

    @property
    def servers(self) -> list[Server]:
        """Their processes."""
        return list(self.deployment.servers.values())

    def acquire(self, number: int, session: str, earlier_workspace_id: str = "") -> str:
        """A sandbox at one of them, for a session; its id."""
        return asyncio.run(self._acquire(HOSTS[number], session, earlier_workspace_id))

    async def _acquire(self, host: str, session: str, workspace_id: str) -> str:
        place = TcpAddress(host, self.port)
        files = files_of(self.deployment.folder / "certs", Identity.AGENT)
        async with Channels(Identity.AGENT, {"executor": place}, tls=files) as channels:
            client = Client(channels.to("executor"), "")
            answer = await client.acquire(session, earlier_workspace_id=workspace_id)
        return answer.sandbox.sandbox_id

    def make_orphan(self, number: int, folder: Path) -> str:
        """A box of one of them, which starts anew, that it knows nothing about; its key."""
        server = self.servers[number]
        server.stop()
        home = server.home.path
        owner = asyncio.run(_owner(home))
        self.deployment.start()
        # Whoever starts a box is its parent, and has to go for it to be nobody's.
        argv = [sys.executable, "-m", "tests.e2e.executor_pair", home, owner, folder]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


async def _owner(home: Path) -> str:
    """As whose an executor that does not run marks its boxes."""
    async with Journal(home / "state" / "executor" / "journal.db") as journal:
        return journal.owner


async def _make_box(home: Path, owner: str, folder: Path) -> str:
    state, zipapp = home / "state" / "executor", await asyncio.to_thread(build_zipapp)
    config = executor_settings(home, "bubblewrap").load(ExecutorConfig)
    backend = BACKENDS["bubblewrap"](Site(owner, state, zipapp, config))
    spec = replace(await asyncio.to_thread(new_spec, owner, folder), pool="default")
    try:
        return (await backend.create(spec)).key
    finally:
        await backend.close()


@contextmanager
def executor_pair(folder: Path, **variables: str) -> Generator[ExecutorPair]:
    """Both, from their start to their good end."""
    port = free_port()
    endpoints = {host: f"{host}:{port}" for host in HOSTS}
    with executors(folder, port, endpoints, {NAME: HOSTS}, **variables) as deployment:
        yield ExecutorPair(deployment, port)


@contextmanager
def executors(
    folder: Path,
    port: int,
    endpoints: Mapping[str, str],
    names: Mapping[str, Iterable[str]],
    **variables: str,
) -> Generator[Deployment]:
    """One executor at each of these addresses, which says that this is its endpoint.

    Their operator knows these names, each with its addresses. With HERMES_WORKSPACES_SHARED all
    have the same folder for workspaces.
    """
    shared = folder / "workspaces"
    shared.mkdir()
    hosts = folder / "hosts"
    hosts.write_text("".join(f"{at} {name}\n" for name, each in names.items() for at in each))
    certs = make_certificates(folder, ("agent", "executor"), executor=(*names, *endpoints))
    operator = {"HERMES_EXECUTOR_ADDRESS": f"{NAME}:{port}", **tls_of(certs, "operator")}
    client = Home.make(folder / "client", None, **operator)
    common = {
        "HERMES_BACKEND": "bubblewrap",
        "HERMES_METRICS_PORT": "0",
        **LEAVE_NOTHING,
        **tls_of(certs, "executor"),
        **variables,
    }
    servers: dict[str, Server] = {}
    for host, endpoint in endpoints.items():
        own = {"HERMES_LISTEN": f"{host}:{port}", "HERMES_EXECUTOR_ENDPOINT": endpoint}
        home = Home.make(folder / f"executor-{host}", None, **common, **own)
        if "HERMES_WORKSPACES_SHARED" in variables:
            workspaces = home.path / "workspaces"
            workspaces.mkdir()
            home = replace(home, prefix=bound(shared, workspaces))
        servers[host] = Server(host, home, "serve", "executor")
    asking = replace(client, prefix=bound(hosts, HOSTS_FILE))
    with running(Deployment(asking, servers, folder)) as deployment:
        yield deployment


def main() -> None:
    """Makes a box in an executor's home, and says its key."""
    home, owner, folder = sys.argv[1:]
    print(asyncio.run(_make_box(Path(home), owner, Path(folder))))


if __name__ == "__main__":
    main()
