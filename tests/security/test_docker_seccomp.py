"""What the sandboxes' system call filter refuses and lets through, in real containers.

Each refused call is made by root with the capabilities that it needs, so that the filter is all
that can refuse it, and once more without the filter, where it must end differently: else the test
proves nothing.
"""

import errno
import json
import platform
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

import executor_service
from tests.support.docker_engine import SANDBOX_IMAGE, docker_client
from tests.support.requirements import require

PROFILE = (Path(executor_service.__file__).parent / "backends" / "seccomp.json").read_text()

REFUSED_CALLS: dict[str, tuple[int | None, int | None, list[int]]] = {
    name: (x86, arm, arguments)
    for name, x86, arm, arguments in json.loads(
        Path(__file__).with_name("refused_calls.json").read_text()
    )
}
"""Their numbers on x86_64 and on aarch64, and arguments that do no harm when let through."""
CAPABILITIES = [
    *("SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE"),
    *("SYS_RAWIO", "SYS_TIME", "SYSLOG", "DAC_READ_SEARCH", "IPC_LOCK", "MKNOD", "NET_RAW"),
]
SOCKET = (41, 198)
PERSONALITY = (135, 92)
MKNODAT = (259, 33)
CLONE = (56, 220)
CLONE3 = (435, 435)
NEW_NAMESPACE_FLAGS = {
    "NEWNS": 0x00020000,
    "NEWCGROUP": 0x02000000,
    "NEWUTS": 0x04000000,
    "NEWIPC": 0x08000000,
    "NEWUSER": 0x10000000,
    "NEWPID": 0x20000000,
    "NEWNET": 0x40000000,
}
S_IFCHR, S_IFBLK = 0x2000, 0x6000
SIGCHLD = 17
REFUSED_ARGUMENTS: dict[str, tuple[tuple[int, int], list[int]]] = {
    "socket AF_VSOCK": (SOCKET, [40, 1, 0]),
    "socket AF_VSOCK with high bits set": (SOCKET, [(1 << 32) | 40, 1, 0]),
    "socket AF_ALG": (SOCKET, [38, 5, 0]),
    "socket AF_PACKET": (SOCKET, [17, 3, 0]),
    "socket AF_NETLINK netfilter": (SOCKET, [16, 3, 12]),
    "personality ADDR_NO_RANDOMIZE": (PERSONALITY, [0x0040000]),
    "mknodat character device": (MKNODAT, [-100, 0, S_IFCHR, 0x103]),
    "mknodat block device": (MKNODAT, [-100, 0, S_IFBLK, 0x700]),
    **{
        f"clone {name}": (CLONE, [flag | SIGCHLD, 0, 0, 0, 0])
        for name, flag in NEW_NAMESPACE_FLAGS.items()
    },
}

# Runs in the container: makes every call in a child of its own and prints {name: errno or 0}.
PROBE = r"""
import ctypes, json, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
outcome = {}
for name, numbers, arguments in json.loads(sys.argv[1]):
    if numbers[column] is None:
        continue
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        me = os.getpid()
        result = libc.syscall(numbers[column], *map(ctypes.c_ulong, arguments))
        if os.getpid() != me or (name.startswith("clone ") and result == 0):
            os._exit(0)
        os.write(writer, struct.pack("i", ctypes.get_errno() if result == -1 else 0))
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 4)
    os.close(reader)
    os.waitpid(child, 0)
    outcome[name] = struct.unpack("i", answer)[0] if len(answer) == 4 else None
print(json.dumps(outcome))
"""

X86_64 = platform.machine() == "x86_64"
EXISTING_CALLS = [name for name, (_, arm, _) in REFUSED_CALLS.items() if X86_64 or arm is not None]
EVERY_CALL = [
    *([name, [x86, arm], arguments] for name, (x86, arm, arguments) in REFUSED_CALLS.items()),
    *([name, list(numbers), arguments] for name, (numbers, arguments) in REFUSED_ARGUMENTS.items()),
    ["clone3", list(CLONE3), [0, 0]],
    ["socket AF_UNIX", list(SOCKET), [1, 1, 0]],
    ["socket AF_INET", list(SOCKET), [2, 1, 0]],
    ["socket AF_INET6", list(SOCKET), [10, 1, 0]],
    ["socket AF_NETLINK route", list(SOCKET), [16, 3, 0]],
    ["personality ask", list(PERSONALITY), [0xFFFFFFFF]],
    ["clone nothing new", list(CLONE), [SIGCHLD, 0, 0, 0, 0]],
]


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker_client()
    yield client
    client.close()


def make_calls(engine: docker.DockerClient, seccomp: str) -> dict[str, int | None]:
    output: Any = engine.containers.run(
        SANDBOX_IMAGE,
        ["python3", "-I", "-c", PROBE, json.dumps(EVERY_CALL)],
        user="0:0",
        cap_add=CAPABILITIES,
        security_opt=[f"seccomp={seccomp}", "apparmor=unconfined"],
        network_mode="none",
        remove=True,
    )
    return json.loads(output)


@pytest.fixture(scope="module")
def filtered(engine: docker.DockerClient) -> dict[str, int | None]:
    return make_calls(engine, PROFILE)


@pytest.fixture(scope="module")
def unfiltered(engine: docker.DockerClient) -> dict[str, int | None]:
    return make_calls(engine, "unconfined")


@pytest.mark.parametrize("call", [*EXISTING_CALLS, *REFUSED_ARGUMENTS])
def test_filter_refuses(
    call: str, filtered: dict[str, int | None], unfiltered: dict[str, int | None]
) -> None:
    assert filtered[call] == errno.EPERM
    assert unfiltered[call] != errno.EPERM, "refused without the filter too: proves nothing"


def test_clone3_says_that_it_does_not_exist(
    filtered: dict[str, int | None], unfiltered: dict[str, int | None]
) -> None:
    assert filtered["clone3"] == errno.ENOSYS
    assert unfiltered["clone3"] == errno.EINVAL


@pytest.mark.parametrize(
    "call",
    [
        "socket AF_UNIX",
        "socket AF_INET",
        "socket AF_INET6",
        "socket AF_NETLINK route",
        "personality ask",
        "clone nothing new",
    ],
)
def test_filter_lets_through(call: str, filtered: dict[str, int | None]) -> None:
    assert filtered[call] == 0


# mov eax, 20 (getpid of the 32-bit table); int 0x80; ret
CALL_OF_32_BITS = r"""
import ctypes, mmap, os
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
print("let through" if call() == os.getpid() else "refused")
"""


def test_calls_through_the_32_bit_table_do_not_get_around_the_filter(
    engine: docker.DockerClient,
) -> None:
    require("x86_64", X86_64, "only x86 has two tables of calls")
    command = ["python3", "-c", CALL_OF_32_BITS]
    control: Any = engine.containers.run(
        SANDBOX_IMAGE, command, security_opt=["seccomp=unconfined"], remove=True
    )
    require("ia32", control == b"let through\n", "this kernel has no 32-bit calls")
    container = engine.containers.run(
        SANDBOX_IMAGE, command, security_opt=[f"seccomp={PROFILE}"], detach=True
    )
    try:
        killed = container.wait(timeout=30)["StatusCode"] == 128 + signal.SIGSYS
        assert killed or container.logs().decode().strip() == "refused"
    finally:
        container.remove(force=True)
