"""What a box of the docker backend can see, change and use up, tried from inside real ones."""

import asyncio
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from executor_service.backends.base import MIB, Box, BoxSpec, Limits
from executor_service.backends.docker.backend import DockerBackend
from executor_service.config import DockerConfig
from executor_service.supervisor_zipapp import build_zipapp
from tests.docker_engine import docker_client, run_in

TMP = ["/tmp", "/var/tmp", "/run", "/dev/shm", "/skills"]
LIMITS = Limits(memory_bytes=192 * MIB, cpu_count=1, pids=32, tmp_bytes=64 * MIB)


class Inside:
    """A box and a way to run commands in it."""

    def __init__(self, client: docker.DockerClient, box: Box) -> None:
        self.client = client
        self.box = box

    def run(self, *argv: str) -> tuple[int, str]:
        return run_in(self.client, self.box.native_id, *argv)

    def shell(self, script: str) -> str:
        code, output = self.run("bash", "-c", script)
        assert code == 0, output
        return output

    def python(self, script: str) -> str:
        code, output = self.run("python3", "-c", script)
        assert code == 0, output
        return output


def box_uid() -> int:
    return os.getuid() or 1000


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    client = docker_client()
    workspace, notes = (tmp_path_factory.mktemp(name) for name in ("workspace", "notes"))
    os.chown(workspace, box_uid(), -1)
    owner = f"test-{uuid.uuid4().hex}"

    async def create() -> Box:
        backend = DockerBackend(owner, notes, build_zipapp(), DockerConfig())
        box = await backend.create(BoxSpec(f"b{uuid.uuid4().hex}", owner, "p", workspace, LIMITS))
        await (await backend.connect(box)).close()
        await backend.close()
        return box

    async def destroy(box: Box) -> None:
        backend = DockerBackend(owner, notes, b"", DockerConfig())
        await backend.destroy(box)
        await backend.close()

    box = asyncio.run(create())
    try:
        yield Inside(client, box)
    finally:
        asyncio.run(destroy(box))
        client.close()


def test_commands_have_no_privilege_to_lose(inside: Inside) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in inside.shell("cat /proc/self/status").splitlines()
        if ":\t" in line
    )
    assert status["Uid"].split("\t") == [str(box_uid())] * 4
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
        "0000000000000000"
    }
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert inside.shell("find / -xdev -perm /6000 -type f 2>/dev/null; true") == ""


def test_the_supervisor_is_the_first_process_and_out_of_reach(inside: Inside) -> None:
    assert "-S /opt/hermes --socket" in inside.shell("tr '\\0' ' ' </proc/1/cmdline")
    for secret in ("/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/1/fd/0"):
        assert inside.run("head", "-c1", secret)[0] != 0
    assert inside.run("sh", "-c", "echo >>/opt/hermes/__main__.py")[0] != 0
    assert inside.run("kill", "-KILL", "1") == (0, "")
    assert inside.run("true")[0] == 0


def test_nothing_can_be_written_but_what_is_sized_and_the_workspace(inside: Inside) -> None:
    writable = inside.shell("find / -type d -writable -not -path '/proc/*' 2>/dev/null; true")
    assert sorted(writable.split()) == sorted(["/workspace", "/dev/mqueue", *TMP])
    assert inside.run("sh", "-c", "echo 1 >/proc/sys/kernel/core_pattern")[0] != 0
    assert inside.run("sh", "-c", "echo b >/proc/sysrq-trigger")[0] != 0
    assert inside.run("sh", "-c", "mkdir /sys/fs/cgroup/pids/x /sys/fs/cgroup/x")[0] != 0


def test_programs_run_from_tmp_the_skills_and_the_workspace_alone(inside: Inside) -> None:
    def runs_from(folder: str) -> bool:
        return inside.run("sh", "-c", f"cp /bin/true {folder}/t && {folder}/t")[0] == 0

    assert {path: runs_from(path) for path in ["/workspace", *TMP]} == {
        "/workspace": True,
        **{path: path in ("/tmp", "/skills") for path in TMP},
    }


def test_the_host_is_not_there(inside: Inside, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("host")
    assert inside.run("cat", str(canary))[0] != 0
    assert inside.shell("hostname") == "sandbox"
    devices = {"full", "mqueue", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero"}
    links = {"core", "fd", "stderr", "stdin", "stdout"}
    assert set(inside.shell("ls /dev").split()) - links == devices
    for name in ("docker.sock", "containerd/containerd.sock"):
        assert inside.run("ls", f"/run/{name}")[0] != 0
        assert inside.run("ls", f"/var/run/{name}")[0] != 0


def test_what_the_engine_keeps_of_a_box(inside: Inside) -> None:
    facts = inside.client.containers.get(inside.box.native_id).attrs
    host = facts["HostConfig"]
    assert host["LogConfig"]["Type"] == "none"
    assert host["Memory"] == host["MemorySwap"] == LIMITS.memory_bytes
    assert (host["PidsLimit"], host["NanoCpus"]) == (LIMITS.pids, 1_000_000_000)
    assert not any(host[name] for name in ("Privileged", "Devices", "CapAdd", "Binds"))
    assert not any(host[name] for name in ("PidMode", "UTSMode", "UsernsMode"))
    assert {(mount["Destination"], mount["RW"]) for mount in facts["Mounts"]} == {
        ("/workspace", True),
        ("/opt/hermes", False),
        ("/opt/hermes-birth", False),
    }
    assert {entry.partition("=")[0] for entry in facts["Config"]["Env"]} == {"HOME", "LANG", "PATH"}
