"""Executors on machines of their own: root file system, network and processes, and nothing shared.

Each is a set of namespaces of this machine, whose root file system is in memory and is seen by
nobody else. A pair of network interfaces leads there, and no route goes further.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from tests.e2e.deployment import (
    LEAVE_NOTHING,
    READY_TIMEOUT_S,
    SERVICES,
    STOP_TIMEOUT_S,
    Deployment,
    Server,
    make_certificates,
    model_at,
    tls_of,
)
from tests.e2e.home import REPOSITORY, Home
from tests.e2e.processes import check_nothing_left, end_users_of
from tests.ports import free_port
from tests.requirements import require

HOSTS_FILE = Path("/etc/hosts")
"""Where names are looked up."""
EXECUTORS = "executors.test"
"""The name under which all of them are found."""
PORT = 7402
HOME = Path("/var/lib/hermes")
CERTIFICATES = Path("/etc/hermes")
WORKSPACES = HOME / "workspaces"

_PROGRAMS = ("ip", "unshare", "nsenter", "mount", "pivot_root", "hostname")
_ROOT = Path(__file__).with_name("node-root")
_CHILD_WITHIN_S = 10.0


def need_nodes() -> None:
    """Skip visibly where this user cannot make network and mount namespaces."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    obstacle = f"no {missing[0]}: install iproute2 and util-linux" if missing else ""
    if os.geteuid() != 0:
        obstacle = "only root may make network namespaces"
    require("nodes", not obstacle, obstacle)


class Node:
    """A machine."""

    def __init__(self, number: int, folder: Path) -> None:
        self.name = f"hermes-node-{number}"
        self.folder = folder
        """Where this machine keeps what the node says."""
        self.host = f"10.231.{number}.2"
        self._outside = f"10.231.{number}.1"
        self._links = (f"hermes{number}a", f"hermes{number}b")
        self._first: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Where its executor alone is reached."""
        return f"{self.host}:{PORT}"

    @property
    def gateway(self) -> str:
        """This machine's address on the way there."""
        return self._outside

    def start(self, shared: Path | None) -> None:
        """Bring it up; a shared folder is where its executor keeps workspaces."""
        self.folder.mkdir(exist_ok=True)
        outside, inside = self._links
        self._ip("netns", "add", self.name)
        self._ip("link", "add", outside, "type", "veth", "peer", "name", inside)
        self._ip("link", "set", inside, "netns", self.name)
        self._ip("address", "add", f"{self._outside}/30", "dev", outside)
        self._ip("link", "set", outside, "up")
        self._ip("-n", self.name, "address", "add", f"{self.host}/30", "dev", inside)
        self._ip("-n", self.name, "link", "set", inside, "up")
        bound = [f"{shared}={WORKSPACES}"] if shared is not None else []
        own = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts")
        argv = [*self._in_net, *own, "--propagation", "private", _ROOT, self.name]
        with (self.folder / "node.log").open("wb") as said:
            self._first = subprocess.Popen(
                [*argv, *map(str, _programs()), "--", *bound], stdout=said, stderr=said
            )
        end = time.monotonic() + READY_TIMEOUT_S
        while not (self.root / "run/ready").exists():
            assert self._first.poll() is None, (self.folder / "node.log").read_text()
            assert time.monotonic() < end, "the node does not come up"
            time.sleep(0.02)

    def give(self, folder: Path, *names: str) -> None:
        """Copy files to where its certificates are."""
        place = self.root / CERTIFICATES.relative_to("/")
        place.mkdir()
        for name in names:
            shutil.copy(folder / name, place)

    def end(self) -> None:
        """End all that runs in it, and take its interfaces away."""
        if self._first is not None:
            self._first.kill()
            self._first.wait()
            self._first = None
        for gone in (("netns", "delete", self.name), ("link", "delete", self._links[0])):
            subprocess.run(["ip", *gone], capture_output=True, check=False, timeout=10)

    @property
    def pid(self) -> int:
        """Its first process, by the number that this machine has for it."""
        assert self._first is not None, "the node was started"
        return child_of(self._first.pid)

    @property
    def root(self) -> Path:
        """Its root file system, as only a test may look at it."""
        return Path(f"/proc/{self.pid}/root")

    @property
    def enter(self) -> tuple[str, ...]:
        """What runs a program in it."""
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid")
        return ("nsenter", "--target", str(self.pid), *spaces, "--root", "--wd")

    def run(self, *argv: str, timeout_s: float = 30) -> "subprocess.CompletedProcess[str]":
        """Run a program in it to its end."""
        return subprocess.run(
            [*self.enter, *argv], capture_output=True, text=True, check=False, timeout=timeout_s
        )

    def cut_off(self, *, cut: bool = True) -> None:
        """Lose the network between it and this machine, or have it again."""
        self._ip("link", "set", self._links[0], "down" if cut else "up")

    @property
    def _in_net(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name)

    @staticmethod
    def _ip(*argv: str) -> None:
        subprocess.run(["ip", *argv], check=True, timeout=10)


class NodeServer(Server):
    """An executor that runs on a node."""

    def __init__(self, node: Node, variables: Mapping[str, str]) -> None:
        self.node = node
        own = {
            "HERMES_LISTEN": f"{node.host}:{PORT}",
            "HERMES_EXECUTOR_ENDPOINT": node.endpoint,
            "HERMES_INSTANCE": node.name,
            "HERMES_BACKEND": "bubblewrap",
            "HERMES_TLS_CA": f"{CERTIFICATES}/ca.crt",
            "HERMES_TLS_CERTIFICATE": f"{CERTIFICATES}/executor.crt",
            "HERMES_TLS_KEY": f"{CERTIFICATES}/executor.key",
        }
        home = Home(HOME, {**variables, **own}, node.enter)
        super().__init__(node.name, home, "serve", "executor")
        self._stderr = node.folder / "executor.stderr"

    @property
    def pid(self) -> int:
        """The server's own id, and not that of the program that has started it there."""
        return child_of(super().pid)

    def last_command_of(self, session_id: str) -> str:
        """When it began the last command of a session; empty if it has begun none."""
        lines = [json.loads(line) for line in self.said().splitlines() if line[:1] == "{"]
        ours = [line for line in lines if line.get("session_id") == session_id]
        return max(
            (line["time"] for line in ours if "runs in sandbox" in line["event"]), default=""
        )

    def stop(self) -> int:
        """Ask it to stop; its exit status."""
        assert self._process is not None, "the server was started"
        os.kill(self.pid, signal.SIGTERM)
        return self._process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End it as a crash does; its boxes live on."""
        if self.is_running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        super().kill()


@dataclass(frozen=True, slots=True)
class Cluster:
    """A deployment whose executors are on nodes, and all else on this machine."""

    deployment: Deployment
    nodes: Sequence[Node]
    executors: Sequence[NodeServer]

    @property
    def client(self) -> Home:
        """The home of somebody who asks."""
        return self.deployment.client

    def executor_of(self, session_id: str) -> NodeServer:
        """The executor that has run a session's last command."""
        last = {server: server.last_command_of(session_id) for server in self.executors}
        return max(self.executors, key=last.__getitem__)


@contextmanager
def cluster(folder: Path, model_url: str, *, shared: bool = False) -> Generator[Cluster]:
    """A running deployment with two executors, from its start to its good end.

    With `shared` both have the same folder for workspaces, else each keeps its own.
    """
    nodes = [Node(number, folder / f"node-{number}") for number in (1, 2)]
    names = (EXECUTORS, *(node.host for node in nodes))
    certs = make_certificates(folder, SERVICES, executor=names)
    with ExitStack() as stack:
        stack.callback(end_users_of, folder)
        for node in nodes:
            stack.callback(node.end)
            node.end()
            node.start(_shared(folder) if shared else None)
            node.give(certs, "ca.crt", "executor.crt", "executor.key")
        variables = {**LEAVE_NOTHING, "HERMES_WORKSPACES_SHARED": str(shared).lower()}
        executors = [NodeServer(node, variables) for node in nodes]
        made = _deploy(folder, model_url, executors, certs)
        stack.callback(made.deployment.kill)
        made.deployment.start()
        yield made
        made.deployment.stop()
        for node in nodes:
            node.end()
        check_nothing_left(folder)


def _deploy(folder: Path, model_url: str, executors: Sequence[NodeServer], certs: Path) -> Cluster:
    nodes = [executor.node for executor in executors]
    hosts = folder / "hosts"
    hosts.write_text("".join(f"{node.host} {EXECUTORS}\n" for node in nodes))
    addresses = {
        f"HERMES_{name.upper()}_ADDRESS": f"127.0.0.1:{free_port()}"
        for name in SERVICES
        if name != "executor"
    }
    common = {**addresses, "HERMES_EXECUTOR_ADDRESS": f"{EXECUTORS}:{PORT}", **LEAVE_NOTHING}
    client = Home.make(folder / "client", None, **common, **tls_of(certs, "operator"))
    servers: dict[str, Server] = {}
    for name in ("agent", "gateway", "scheduler"):
        own = {"HERMES_METRICS_PORT": "0", **tls_of(certs, name)}
        own |= model_at(model_url) if name == "agent" else {}
        home = Home.make(folder / name, None, **common, **own)
        servers[name] = Server(name, replace(home, prefix=bound(hosts, HOSTS_FILE)), "serve", name)
    servers |= {server.name: server for server in executors}
    return Cluster(Deployment(client, servers, folder), nodes, executors)


def bound(source: Path, target: Path) -> tuple[str, ...]:
    """What runs a program for which one file or folder is in another's place."""
    script = f'mount --bind {source} {target}; exec "$@"'
    return ("unshare", "--mount", "--propagation", "private", "bash", "-c", script, "bash")


def _shared(folder: Path) -> Path:
    shared = folder / "shared"
    shared.mkdir(exist_ok=True)
    return shared


def child_of(pid: int) -> int:
    """The only child of a process, once there is one."""
    end = time.monotonic() + _CHILD_WITHIN_S
    while True:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        assert time.monotonic() < end, f"process {pid} starts nothing"
        time.sleep(0.01)


def _programs() -> Sequence[Path]:
    """The folders of this machine that programs are in."""
    found = (Path("/usr"), Path(sys.base_prefix), Path(sys.prefix), REPOSITORY)
    kept: list[Path] = []
    for path in sorted(set(found)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept
