"""Ways out of a box, tried from inside, and once where there are no walls.

What the system call filter refuses call by call is in test_docker_seccomp and test_inside_boxes.
"""

import asyncio
import json
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.security.places import EVERYTHING_HELD
from tests.support.boxes import Console, open_console, open_yard
from tests.support.requirements import require

pytestmark = pytest.mark.asyncio(loop_scope="module")

ATTEMPTS = r"""
import ctypes, json, os, platform, socket, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
canary, pipe, abstract, port = sys.argv[1:5]
pivot = {"x86_64": 155, "aarch64": 41}[platform.machine()]

def call(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")

def mount():
    call(libc.mount(b"none", b"/tmp", b"tmpfs", 0, b""))

def pivot_root():
    mount()
    os.mkdir("/tmp/old")
    call(libc.syscall(pivot, b"/tmp", b"/tmp/old"))

def unshare():
    call(libc.unshare(0x10000000 | 0x20000))

def ptrace():
    call(libc.ptrace(0, 0, 0, 0))

def mknod():
    os.mknod("/tmp/zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))

def sysctl():
    with open("/proc/sys/kernel/core_pattern", "r+") as file:
        file.write(file.read())

def canary_by_name():
    with open(canary, "a") as file:
        file.write("touched")

def canary_by_first_process():
    with open("/proc/1/root" + canary, "a") as file:
        file.write("touched")

def canary_by_link():
    os.symlink(canary, "link")
    with open("link", "a") as file:
        file.write("touched")

def unix_socket():
    socket.socket(socket.AF_UNIX).connect(pipe)

def abstract_socket():
    socket.socket(socket.AF_UNIX).connect("\0" + abstract)

def loopback():
    socket.create_connection(("127.0.0.1", int(port)), 2)

def engines():
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
            "/run/crio/crio.sock", "/var/lib/kubelet/pods"):
        if os.path.exists(path):
            return
    raise OSError(2, "")

def setuid():
    if int(os.popen("./id -u").read() or -1) != 0:
        raise OSError(1, "")

done = []
os.chdir("/workspace" if len(sys.argv) < 6 else sys.argv[5])
for attempt in (unshare, ptrace, mknod, sysctl, canary_by_name, canary_by_first_process,
        canary_by_link, unix_socket, abstract_socket, loopback, engines, setuid, mount, pivot_root):
    child = os.fork()
    if not child:
        try:
            attempt()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        done.append(attempt.__name__)
print(json.dumps(done))
"""
"""Prints what could be done of the host's things; each attempt is a process of its own."""


@dataclass(frozen=True, slots=True)
class Host:
    """Things of the host that are in reach of whoever is on it."""

    folder: Path
    abstract: str
    port: int

    @property
    def canary(self) -> Path:
        return self.folder / "canary"

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the attempts are told."""
        return (str(self.canary), str(self.folder / "socket"), self.abstract, str(self.port))

    def prepare(self, workspace: Path) -> None:
        """Put a program into a workspace that makes whoever runs it root, and a fresh canary out
        of it."""
        self.canary.write_text("host")
        self.canary.chmod(0o666)
        shutil.copy("/usr/bin/id", workspace / "id")
        (workspace / "id").chmod(0o4755)
        workspace.chmod(0o755)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    require("root", os.geteuid() == 0, "only root can make a program that makes others root")
    folder = tmp_path_factory.mktemp("host")
    folder.chmod(0o755)
    abstract = f"hermes-test-{secrets.token_hex(8)}"
    with ExitStack() as stack:
        for address in (str(folder / "socket"), "\0" + abstract):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen()
        (folder / "socket").chmod(0o777)
        server = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
        yield Host(folder, abstract, server.getsockname()[1])


@pytest.fixture(scope="module", params=EVERYTHING_HELD)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(
    name: str, host: Host, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Console]:
    async with open_yard(name, tmp_path_factory.mktemp("boxes")) as yard, yard.box() as box:
        await asyncio.to_thread(host.prepare, box.workspace)
        async with open_console(yard.backend, box) as opened:
            yield opened


async def test_no_way_leads_out(console: Console, host: Host) -> None:
    recorder = await console.start("python3", "-c", ATTEMPTS, *host.arguments)
    exit_ = await recorder.exit()
    assert (exit_.code, json.loads(recorder.stdout)) == (0, []), recorder.stderr
    assert await asyncio.to_thread(host.canary.read_text) == "host"
    status = await console.output("cat /proc/self/status")
    assert {"NoNewPrivs:\t1", "CapBnd:\t0000000000000000"} <= set(status.splitlines())


def beside(host: Host, workspace: Path) -> list[str]:
    """What can be done on the host itself, but for what would change it for others."""
    command = ["python3", "-c", ATTEMPTS, *host.arguments, str(workspace)]
    apart = ["unshare", "--mount", "--propagation", "private"]
    done = subprocess.run([*apart, *command], capture_output=True, check=True, timeout=30)
    return json.loads(done.stdout)


EVERYTHING = {
    *("mount", "unshare", "ptrace", "mknod", "sysctl", "canary_by_name", "canary_by_link"),
    *("unix_socket", "abstract_socket", "loopback", "engines", "setuid"),
}


async def test_without_walls_everything_can_be_done(host: Host, tmp_path: Path) -> None:
    await asyncio.to_thread(host.prepare, tmp_path)
    done = set(await asyncio.to_thread(beside, host, tmp_path))
    # A machine that is itself a container may keep some of its own from its root.
    assert done >= EVERYTHING - {"sysctl", "mknod", "engines"}, EVERYTHING - done
    assert "touched" in await asyncio.to_thread(host.canary.read_text)
