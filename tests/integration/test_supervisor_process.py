"""The supervisor as a process: any Python of a box, any stranger at its socket, alone for long."""

import asyncio
import hashlib
import importlib.util
import io
import os
import socket
import struct
import subprocess
import sys
import zipfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from executor_service.backends.seccomp import sandbox_filter
from executor_service.backends.supervisor_zipapp import build_zipapp, install_supervisor
from executor_service.errors import LinkClosed
from executor_service.link.byte_streams import SocketStream
from executor_service.link.link import Hello, open_link
from executor_service.supervisor import frames
from executor_service.supervisor.bridge import GREETING
from executor_service.supervisor.frames import REMEMBERED
from executor_service.supervisor.processes import read_process
from tests.support.boxes import Console, refuse
from tests.support.requirements import require

SECRET = "s3cret"
OURS = ("--box", "box", "--secret-sha256", hashlib.sha256(SECRET.encode()).hexdigest())
OLDEST_PYTHON = (3, 8)


def pythons() -> list[str]:
    """Every Python of this machine that a box could have, by its real path."""
    places = [Path("/usr/bin"), Path("/usr/local/bin"), Path(sys.base_prefix) / "bin"]
    places += sorted(Path(sys.base_prefix).parent.glob("*/bin"))
    found: dict[str, str] = {}
    for minor in range(OLDEST_PYTHON[1], 16):
        for place in places:
            program = place / f"python3.{minor}"
            if program.is_file():
                found.setdefault(program.name, str(program))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Running:
    """A supervisor on this machine, without a box around it."""

    process: subprocess.Popen[bytes]
    program: tuple[str, ...]
    folder: Path

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(self.folder / "socket"))
        return sock

    @asynccontextmanager
    async def console(self, epoch: int = 1) -> AsyncGenerator[Console]:
        stream = SocketStream(await asyncio.to_thread(self.connect))
        async with open_link(stream, Hello("box", SECRET, epoch), refuse) as link:
            yield Console(link)


@asynccontextmanager
async def supervisor(
    folder: Path, *options: str, python: str = sys.executable, inherits: tuple[int, ...] = ()
) -> AsyncGenerator[Running]:
    """Start one and end it."""
    running = await asyncio.to_thread(start, folder, (*OURS, *options), python, inherits)
    try:
        yield running
    finally:
        await asyncio.to_thread(stop, running.process)


def start(
    folder: Path, options: tuple[str, ...], python: str, inherits: tuple[int, ...] = ()
) -> Running:
    (folder / "workspace").mkdir(exist_ok=True)
    program = (python, "-I", "-S", str(install_supervisor(build_zipapp(), folder, str(folder))))
    ready, told = socket.socketpair()
    process = subprocess.Popen(
        [
            *(*program, "--socket", str(folder / "socket"), "--ready-fd", str(told.fileno())),
            *("--workspace", str(folder / "workspace"), *options),
        ],
        pass_fds=[told.fileno(), *inherits],
        env={"PATH": os.defpath},
    )
    told.close()
    with ready:
        assert ready.recv(1) == b"1", f"{python} cannot run the supervisor"
        ready.sendall(REMEMBERED)
    return Running(process, program, folder)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(10)


def test_the_zip_file_is_the_same_every_time() -> None:
    content = build_zipapp()
    assert content == build_zipapp()
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert "__main__.py" in names
    assert all(name.endswith(".py") for name in names)


def test_it_runs_as_a_zip_file(tmp_path: Path) -> None:
    file = tmp_path / "supervisor.pyz"
    file.write_bytes(build_zipapp())
    done = subprocess.run(
        [sys.executable, "-I", "-S", file, "--help"], check=True, capture_output=True
    )
    assert b"--listen-fd" in done.stdout


def test_it_is_unpacked_once(tmp_path: Path) -> None:
    first = install_supervisor(build_zipapp(), tmp_path, "/opt/x")
    assert install_supervisor(build_zipapp(), tmp_path, "/opt/x") == first
    assert list(tmp_path.iterdir()) == [first]
    assert install_supervisor(build_zipapp(), tmp_path, "/opt/y") != first
    compiled = first / importlib.util.cache_from_source("executor_service/supervisor/main.py")
    assert b"/opt/x/executor_service/supervisor/main.py" in compiled.read_bytes()
    assert str(tmp_path).encode() not in compiled.read_bytes()


@pytest.mark.parametrize("python", pythons())
async def test_every_python_runs_it(tmp_path: Path, python: str) -> None:
    async with supervisor(tmp_path, python=python) as running, running.console() as console:
        assert await console.output("echo hello; cat", stdin=False) == "hello"
        recorder = await console.shell("setsid sleep 600 & sleep 600", run_timeout_s=0.1)
        exit_ = await recorder.exit()
        assert (exit_.reason, exit_.survivors) == ("TIMEOUT", 0)
        assert (await console.link.files.stat("/etc/passwd")).type == "file"
        assert not (await console.link.files.list_directory(".")).entries


@pytest.fixture
def filter_fd() -> Iterator[int]:
    """A descriptor of the sandboxes' system call filter."""
    fd = os.memfd_create("filter")
    os.write(fd, sandbox_filter())
    os.lseek(fd, 0, os.SEEK_SET)
    yield fd
    os.close(fd)


async def test_it_loads_a_filter_where_nobody_else_can(tmp_path: Path, filter_fd: int) -> None:
    options = ("--filter-fd", str(filter_fd))
    async with (
        supervisor(tmp_path, *options, inherits=(filter_fd,)) as running,
        running.console() as console,
    ):
        assert await console.output("grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status") == (
            "NoNewPrivs:\t1\nSeccomp:\t2"
        )
        refused = await console.python(
            "import ctypes, os, threading; threading.Thread(target=print).start()\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "print(libc.unshare(0x10000000), os.strerror(ctypes.get_errno()))"
        )
        assert refused.split("\n")[-1] == "-1 Operation not permitted"
        assert str(filter_fd) not in (await console.output("ls /proc/self/fd")).split()


def test_the_oldest_python_is_tried() -> None:
    names = [Path(python).name for python in pythons()]
    require("python3.8", "python3.8" in names, "the oldest Python of boxes is not installed")
    assert "python3.8" in names


async def test_strangers_get_nowhere(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as running, running.console() as console:
        ping = frames.pack(frames.PING, 1)
        huge = struct.pack("!IBII", 4_000_000, frames.HELLO, 0, 0)
        odd = [
            b"{",
            b"[]",
            b"[" * 100_000,
            b"\xff",
            b"{}",
            b'{"secret":1}',
            b'{"secret":"\\udc80"}',
        ]
        hellos = [frames.pack(frames.HELLO, 0, hello) for hello in odd]
        said = [ping] * 20 + [huge] * 10 + hellos
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*(asyncio.to_thread(talk, running, w) for w in said))
        assert set(answers) == {b""}
        assert await console.output("echo fine") == "fine"


def talk(running: Running, words: bytes) -> bytes:
    """Say something to a supervisor and hear what it answers until it hangs up."""
    with running.connect() as sock:
        try:
            sock.sendall(words)
            return sock.recv(100)
        except (ConnectionResetError, BrokenPipeError):
            return b""


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(frames.REQUESTS)),
            st.integers(0, 3),
            st.one_of(
                st.binary(max_size=30),
                st.dictionaries(
                    st.sampled_from(
                        ["op", "path", "argv", "exec_id", "signal", "rows", "mode", "offset"]
                    ),
                    st.one_of(
                        st.none(),
                        st.integers(),
                        st.text(max_size=5),
                        st.sampled_from(["read", "write", "stat", "list", "commit"]),
                        st.lists(st.text(max_size=5), max_size=2),
                    ),
                    max_size=5,
                ),
            ),
        ),
        min_size=1,
        max_size=15,
    )
)
@example(said=[(frames.FILE, 1, {"op": ["stat"]})])
def test_nonsense_from_an_executor_ends_only_the_connection(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[int, int, bytes | dict[str, object]]]
) -> None:
    folder = tmp_path_factory.mktemp("box")

    async def scenario() -> None:
        async with supervisor(folder) as running:
            async with running.console() as console:
                outgoing = console.link._outgoing  # pyright: ignore[reportPrivateUsage]
                for kind, ident, payload in said:
                    if isinstance(payload, bytes):
                        outgoing.send(kind, ident, payload)
                    elif kind != frames.START:
                        outgoing.send_json(kind, ident, payload)
                await asyncio.sleep(0.02)
            async with running.console(epoch=2) as console:
                assert await console.output("echo fine") == "fine"

    asyncio.run(scenario())


async def test_left_alone_it_ends_everything(tmp_path: Path) -> None:
    async with supervisor(tmp_path, "--orphan-timeout-s", "0.5") as running:
        async with running.console() as console:
            await console.shell("echo $$ > pid; exec sleep 600")
            await console.output("while ! test -s pid; do sleep 0.01; done; sleep 0.7")
        assert await asyncio.to_thread(running.process.wait, 10) == 0
        pid = int(await asyncio.to_thread((tmp_path / "workspace" / "pid").read_text))
        left = await asyncio.to_thread(read_process, pid)
        assert left is None or left.state == "Z"


async def test_a_bridge_carries_the_channel(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as running:
        ours, theirs = socket.socketpair()
        bridge = await asyncio.create_subprocess_exec(
            *(*running.program, "--bridge", str(tmp_path / "socket")),
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
        )
        theirs.close()
        stream = SocketStream(ours)
        assert await stream.read(len(GREETING)) == GREETING
        async with open_link(stream, Hello("box", SECRET, 1), refuse) as link:
            console = Console(link)
            recorder = await console.shell("head -c 20000000 /dev/zero")
            assert (await recorder.exit()).totals[0] == 20_000_000
            bridge.kill()
            assert isinstance(await link.wait_ended(), LinkClosed)
        await bridge.wait()
        async with running.console(epoch=2) as console:
            assert await console.output("echo on") == "on"
