"""What a command can see, change and use up in a box, tried in real ones."""

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from executor_service.backends.base import Box
from tests.support.boxes import SMALL, Console, Yard, backends, open_console, open_yard
from tests.support.docker_engine import docker_client
from tests.support.requirements import require

pytestmark = pytest.mark.asyncio(loop_scope="module")

# A box may have files of these names, but not the host's.
OF_THE_HOST = ("/home", "/root", "/boot", "/srv", "/mnt", "/media", "/etc/shadow", "/etc/ssh",
    "/etc/hostname", "/var/run/docker.sock", "/run/docker.sock", "/run/containerd", "/var/lib",
    "/sys/class")  # fmt: skip

# Each call fails in its own way when it gets through, and with EPERM when the filter stops it.
CALLS = """
import ctypes, errno, json, platform, sys
numbers = {
    "x86_64": {"io_uring_setup": 425, "io_uring_enter": 426, "bpf": 321, "userfaultfd": 323,
        "perf_event_open": 298, "keyctl": 250, "add_key": 248, "process_vm_readv": 310,
        "pidfd_getfd": 438, "kcmp": 312, "open_by_handle_at": 304, "fsopen": 430, "mount": 165,
        "setns": 308, "unshare": 272, "ptrace": 101, "chroot": 161},
    "aarch64": {"io_uring_setup": 425, "io_uring_enter": 426, "bpf": 280, "userfaultfd": 282,
        "perf_event_open": 241, "keyctl": 219, "add_key": 217, "process_vm_readv": 270,
        "pidfd_getfd": 438, "kcmp": 272, "open_by_handle_at": 265, "fsopen": 430, "mount": 40,
        "setns": 268, "unshare": 97, "ptrace": 117, "chroot": 51},
}[platform.machine()]
arguments = {"bpf": [99, 0, 0], "userfaultfd": [0xFFFF], "keyctl": [0, -3, 0], "kcmp": [0, 0, 99],
    "process_vm_readv": [-1, 0, 0, 0, 0, 1], "unshare": [0], "ptrace": [99, -1, 0, 0]}
libc = ctypes.CDLL(None, use_errno=True)
results = {}
for name, number in numbers.items():
    given = [ctypes.c_long(x) for x in arguments.get(name, [-1, 0, 0, 0, 0, 0])]
    failed = libc.syscall(ctypes.c_long(number), *given) == -1
    results[name] = errno.errorcode[ctypes.get_errno()] if failed else "done"
print(json.dumps(results))
"""

GIT = """
set -e; mkdir repo; cd repo; git init -q .; git config user.email a@b; git config user.name n
echo 1 > file; git add file; git commit -q -m one; git checkout -q -b other
echo 2 > file; git commit -q -a -m two; git log --oneline | wc -l; git gc -q; git fsck
"""

PYTHON = """
import multiprocessing, subprocess, threading, time, tempfile, socket, asyncio, os
seen = []
threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(seen), subprocess.run(["echo", "ran"], capture_output=True, text=True).stdout.strip())
with multiprocessing.get_context("fork").Pool(2) as pool: print(sum(pool.map(abs, range(-9, 0))))
a, b = socket.socketpair(); a.send(b"x"); print(b.recv(1))
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); c = socket.create_connection(
    s.getsockname()); print("loopback")
async def f(): p = await asyncio.create_subprocess_exec("true"); return await p.wait()
print(asyncio.run(f()))
print(tempfile.NamedTemporaryFile().name.startswith("/tmp"))
"""


SHELL_AT_WORK = r"""
set -euxo pipefail
cd /workspace
git init -q repo
cd repo
git config user.name N
git config user.email n@example.org
printf 'alpha\nbeta\n' >file
git add file
git commit -qm first
git clone -q . ../clone
git -C ../clone log --oneline | grep first
git checkout -qb topic
echo gamma >>file
git commit -qam second
git diff HEAD~1 | grep gamma
rg --threads 4 beta . | grep beta
mkdir ../out
tar cJf ../a.tar.xz .
tar xJf ../a.tar.xz -C ../out
zip -qr ../a.zip file
unzip -qo ../a.zip -d ../out
echo '{"a": [1, 2]}' | jq -e '.a[1] == 2'
mkfifo /tmp/pipe
(echo through >/tmp/pipe &)
grep through /tmp/pipe
flock /tmp/lock true
timeout 5 sleep 0.01
nice setsid true
ps aux | grep bash
ip addr show lo | grep 127.0.0.1
sed -i s/alpha/ALPHA/ file
patch --version
make --version
rsync -a . ../copy
find .. -name file -newermt 2000-01-01 | xargs -P4 -n1 sha256sum
sqlite3 ../db 'create table t(a); insert into t values(1); select * from t' | grep 1
python3 -m venv --without-pip /tmp/venv
/tmp/venv/bin/python -c 'import sys; assert sys.prefix == "/tmp/venv"'
echo every line has worked
"""


@pytest.fixture(scope="module", params=backends(["bubblewrap", "docker", "singularity"]))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(name: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    async with open_yard(name, tmp_path_factory.mktemp("boxes")) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(yard: Yard) -> AsyncIterator[Box]:
    async with yard.box() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(yard: Yard, box: Box) -> AsyncIterator[Console]:
    async with open_console(yard.backend, box) as opened:
        yield opened


def container(box: Box) -> Any:
    """What the engine knows of a box of the docker backend."""
    client = docker_client()
    with closing(client):
        return client.containers.get(box.native_id).attrs


def first_process(name: str, box: Box) -> int:
    """The supervisor, as this machine knows it."""
    return container(box)["State"]["Pid"] if name == "docker" else int(box.native_id)


def status_of(pid: int | str) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def test_nobody_in_the_box_is_root_on_the_host(name: str, console: Console, box: Box) -> None:
    assert await console.output("id -u; id -g; id -G") == "1000\n1000\n1000"
    pid = await asyncio.to_thread(first_process, name, box)
    seen_outside = await asyncio.to_thread(status_of, pid)
    expected = str(os.geteuid() or 1000)
    assert seen_outside["Uid"].split() == [expected] * 4
    assert seen_outside["Gid"].split() == [str(os.getegid() or 1000)] * 4


async def test_there_is_no_privilege_to_gain(name: str, console: Console) -> None:
    status = await console.output("cat /proc/self/status")
    found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(found[capabilities], 16) == 0, capabilities
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    assert await console.output("find / -xdev -perm /6000 -type f 2>/dev/null; true") == ""
    if name == "docker":
        return  # whose workspace is on a file system of the engine's
    recorder = await console.run("cp /usr/bin/su . && chmod 4755 su; ls -l su; mount")
    assert "nosuid" in recorder.stdout
    assert all(
        "nosuid" in line for line in recorder.stdout.splitlines() if line.startswith("/dev/")
    )


async def test_the_host_s_files_are_not_there(console: Console, yard: Yard) -> None:
    canary = f"canary-{secrets.token_hex(8)}"
    planted = [Path("/tmp") / canary, yard.folder / canary, yard.folder / "backend" / canary]
    for path in planted:
        await asyncio.to_thread(path.write_text, canary)
    try:
        recorder = await console.run(
            f"find / -name '{canary}' 2>/dev/null; ls -A /run; ls -A /tmp; "
            f"stat -c '%n %d:%i' {' '.join(OF_THE_HOST)} 2>/dev/null"
        )
        found = set(recorder.stdout.splitlines())
        assert {line.split()[0] for line in found} <= set(OF_THE_HOST)
        assert not found & set(await asyncio.to_thread(identities, OF_THE_HOST))
    finally:
        for path in planted:
            await asyncio.to_thread(path.unlink)


def identities(paths: tuple[str, ...]) -> list[str]:
    found = [(path, Path(path).stat()) for path in paths if Path(path).exists()]
    return [f"{path} {status.st_dev}:{status.st_ino}" for path, status in found]


async def test_nothing_but_the_own_places_can_be_written(console: Console) -> None:
    places = ("/workspace", "/tmp", "/var/tmp", "/run", "/dev/shm", "/skills")
    own = " ".join(f"-path {place} -prune -o" for place in ("/proc", *places))
    kinds = "'(' -type d -o -type f -not -path '/dev/*' ')'"
    rest = f"find / {own} {kinds} -writable -print 2>/dev/null; true"
    # Both are as empty as the box's own.
    assert set((await console.output(rest)).split()) <= {"/dev/mqueue", "/dev/pts"}
    probe = "for d in $0 $@; do touch $d/probe && rm $d/probe && echo $d; done 2>/dev/null; true"
    recorder = await console.start("sh", "-c", probe, *places)
    await recorder.exit()
    assert tuple(recorder.stdout.split()) in (places, places[:5])
    recorder = await console.run("for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger "
        "/proc/sys/vm/drop_caches; do echo 1 > $f && echo wrote $f; done")  # fmt: skip
    assert recorder.stdout == ""


@pytest.fixture
def host_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]
        with socket.create_connection(listener.getsockname(), timeout=5):
            pass


@pytest.fixture
def host_name() -> Iterator[str]:
    name = f"\0hermes-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(name)
        listener.listen()
        yield name
        client.connect(name)


async def test_there_is_no_network(console: Console, host_port: int, host_name: str) -> None:
    script = f"""
import socket
def attempt(family, address):
    try:
        socket.socket(family).connect(address)
    except OSError as error:
        return type(error).__name__
    return "connected"
print(attempt(socket.AF_INET, ("127.0.0.1", {host_port})))
print(attempt(socket.AF_INET, ("169.254.169.254", 80)))
print(attempt(socket.AF_INET, ("192.0.2.1", 80)))
print(attempt(socket.AF_INET6, ("fe80::1", 80)))
print(attempt(socket.AF_UNIX, {host_name!r}))
print([name for _, name in socket.if_nameindex()])
"""
    answers = (await console.python(script)).splitlines()
    assert "connected" not in answers
    assert answers[-1] == "['lo']"


async def test_the_filter_refuses_what_is_dangerous(console: Console) -> None:
    inside = await console.python(CALLS)
    refused = json.loads(inside)
    assert set(refused.values()) == {"EPERM"}, refused
    outside = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CALLS], capture_output=True, check=True
    )
    unfiltered = json.loads(outside.stdout)
    through = [name for name, result in unfiltered.items() if result != "EPERM"]
    assert len(through) >= len(refused) - (0 if os.geteuid() == 0 else 8), unfiltered


async def test_namespaces_cannot_be_nested(console: Console) -> None:
    for option in ("-U", "-m", "-p", "-n"):
        recorder = await console.start("/usr/bin/unshare", option, "true")
        assert (await recorder.exit()).code != 0


async def test_the_supervisor_is_out_of_reach(console: Console) -> None:
    recorder = await console.run(
        "cat /proc/1/environ /proc/1/mem /proc/1/maps; ls -l /proc/1/fd/; echo x > /proc/1/fd/1; "
        "echo x > /proc/1/oom_score_adj; ls /proc/1/root/ /proc/1/cwd/; "
        "python3 -c 'import os; os.pidfd_open(1)'; kill -TERM 1; kill -KILL 1; kill -STOP 1; "
        "sleep 0.1; echo still here"
    )
    assert recorder.stdout == "still here\n"
    assert await console.output("echo on") == "on"


@pytest.mark.parametrize("name", backends(["bubblewrap", "singularity"]), indirect=True)
async def test_the_supervisor_holds_nothing_of_the_host(box: Box) -> None:
    """What its descriptors are, seen from outside; commands inherit none of them."""
    require("root", os.geteuid() == 0, "only root sees the descriptors of a box")
    kinds = ("socket:", "anon_inode:[eventpoll]", "pipe:", "/dev/null")
    held = await asyncio.to_thread(descriptors_of, box.native_id)
    rest = {Path(one).name for one in held if not one.startswith(kinds)}
    # The root of the box, what it says when it fails, its own badness, its own control group.
    assert rest <= {"", "stderr", "oom_score_adj", "memory.oom_control", "memory.events"}
    assert "stderr" in rest


def descriptors_of(pid: str) -> list[str]:
    return [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]


async def test_everyday_work_passes_the_filter(console: Console) -> None:
    assert (await console.output(GIT)).splitlines()[0] == "2"
    printed = (await console.python(PYTHON)).splitlines()
    assert printed == ["20 ran", "45", "b'x'", "loopback", "0", "True"]


@pytest.mark.parametrize("name", backends(["bubblewrap", "singularity"]), indirect=True)
async def test_a_box_that_died_is_no_longer_listed_and_leaves_nothing(yard: Yard) -> None:
    spec = await asyncio.to_thread(yard.spec)
    box = await yard.backend.create(spec)
    os.kill(int(box.native_id), signal.SIGKILL)
    for _ in range(100):
        if box.key not in [one.key for one in await yard.backend.list_boxes()]:
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail("the dead box is still listed")
    assert await asyncio.to_thread(traces_of, yard, box.key) == []


async def test_a_destroyed_box_leaves_nothing(yard: Yard) -> None:
    async with yard.box() as box, open_console(yard.backend, box) as console:
        await console.shell("setsid sleep 600 & sleep 600")
        before = await asyncio.to_thread(traces_of, yard, box.key)
    assert before
    assert await asyncio.to_thread(traces_of, yard, box.key) == []
    assert await asyncio.to_thread(box.workspace.is_dir)


@pytest.mark.parametrize("name", ["docker"], indirect=True)
async def test_programs_run_from_tmp_the_skills_and_the_workspace_alone(console: Console) -> None:
    places = ("/workspace", "/tmp", "/skills", "/var/tmp", "/run", "/dev/shm")
    ran = [await console.run(f"cp /bin/true {place}/t && {place}/t") for place in places]
    ended = {place: (await each.exit()).code for place, each in zip(places, ran, strict=True)}
    assert {place for place in places if ended[place] == 0} == set(places[:3])


@pytest.mark.parametrize("name", ["docker"], indirect=True)
async def test_the_tools_of_the_image_pass_the_filter(console: Console) -> None:
    recorder = await console.start("bash", "-c", SHELL_AT_WORK)
    await recorder.exit()
    assert recorder.stdout.endswith("every line has worked\n"), recorder.stderr


@pytest.mark.parametrize("name", ["docker"], indirect=True)
async def test_no_device_of_the_host_is_there(console: Console) -> None:
    assert await console.output("hostname") == "sandbox"
    devices = {"full", "mqueue", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero"}
    links = {"core", "fd", "stderr", "stdin", "stdout"}
    assert set((await console.output("ls /dev")).split()) - links == devices


@pytest.mark.parametrize("name", ["docker"], indirect=True)
async def test_what_the_engine_keeps_of_a_box(box: Box) -> None:
    facts = await asyncio.to_thread(container, box)
    host = facts["HostConfig"]
    assert host["LogConfig"]["Type"] == "none"
    assert host["Memory"] == host["MemorySwap"] == SMALL.memory_bytes
    assert (host["PidsLimit"], host["NanoCpus"]) == (SMALL.pids, 1_000_000_000)
    assert not any(host[name] for name in ("Privileged", "Devices", "CapAdd", "Binds"))
    assert not any(host[name] for name in ("PidMode", "UTSMode", "UsernsMode"))
    assert {(mount["Destination"], mount["RW"]) for mount in facts["Mounts"]} == {
        ("/workspace", True),
        ("/opt/hermes", False),
        ("/opt/hermes-handover", False),
    }
    assert {entry.partition("=")[0] for entry in facts["Config"]["Env"]} == {"HOME", "LANG", "PATH"}


def traces_of(yard: Yard, key: str) -> list[str]:
    """Folders, control groups and processes that carry a box's name."""
    found = [str(path) for path in (yard.folder / "backend" / "boxes").glob(f"{key}*")]
    for folder, names, _ in os.walk("/sys/fs/cgroup"):  # others come and go meanwhile
        found += [f"{folder}/{name}" for name in names if name == f"hermes-{key}"]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if key.encode() in (process / "cmdline").read_bytes():
                found.append(str(process))
        except OSError:
            continue
    return found
