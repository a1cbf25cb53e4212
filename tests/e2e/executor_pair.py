"""Executors on this machine that share a name, each at a loopback address of its own.

Nothing else of Hermes runs: their sandboxes are claimed as an agent does.
"""

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from services.rpc.addresses import TcpAddress
from services.rpc.auth import Identity
from services.rpc.certs import files_of
from services.rpc.channels import Channels
from tests.e2e.deployment import (
    LEAVE_NOTHING,
    Deployment,
    Server,
    make_certificates,
    running,
    tls_of,
)
from tests.e2e.home import Home
from tests.support.executor_client import Client
from tests.support.ports import free_port
from tests.support.requirements import require

NAME = "executors.test"
HOSTS = ("127.0.0.11", "127.0.0.12")
_BIND = 'mount --bind "$1" /etc/hosts; shift; exec "$@"'


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

    def acquire(self, number: int, session: str) -> str:
        """A sandbox at one of them, for a session; its id."""
        return asyncio.run(self._acquire(HOSTS[number], session))

    async def _acquire(self, host: str, session: str) -> str:
        place = TcpAddress(host, self.port)
        files = files_of(self.deployment.folder / "certs", Identity.AGENT)
        async with Channels(Identity.AGENT, {"executor": place}, tls=files) as channels:
            answer = await Client(channels.to("executor"), "").acquire(session)
        return answer.sandbox.sandbox_id


@contextmanager
def executor_pair(folder: Path, **variables: str) -> Generator[ExecutorPair]:
    """Both, from their start to their good end; their operator knows the name alone."""
    require("nodes", os.geteuid() == 0, "only root may give a program names of its own")
    port = free_port()
    hosts = folder / "hosts"
    hosts.write_text("".join(f"{host} {NAME}\n" for host in HOSTS))
    certs = make_certificates(folder, ("agent", "executor"), executor=(NAME, *HOSTS))
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
    for host in HOSTS:
        at = f"{host}:{port}"
        own = {"HERMES_LISTEN": at, "HERMES_EXECUTOR_ENDPOINT": at}
        home = Home.make(folder / f"executor-{host}", None, **common, **own)
        servers[host] = Server(host, home, "serve", "executor")
    asking = replace(client, prefix=("unshare", "--mount", "bash", "-c", _BIND, "bash", str(hosts)))
    with running(Deployment(asking, servers, folder)) as deployment:
        yield ExecutorPair(deployment, port)
