"""The program that starts boxes of bubblewrap, and the executor's end of it."""

# pyright: reportPrivateUsage=false

import asyncio
import marshal
import os
import resource
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executor_service.backends.bubblewrap import launch
from executor_service.backends.bubblewrap.launcher import Launcher
from executor_service.supervisor.processes import children_of, read_table
from tests.support.executors import until


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    launcher = Launcher()
    yield launcher
    launcher.close()


def touching(file: Path) -> dict[str, Any]:
    """A request whose box is a program that makes a file."""
    argv = ["/usr/bin/touch", str(file)]
    return {"control_groups": [], "stage": [], "user": None, "argv": argv}


async def wait_for(file: Path) -> None:
    await until(lambda: asyncio.to_thread(file.exists))


async def test_a_box_that_may_have_begun_is_not_begun_again(
    launcher: Launcher, tmp_path: Path
) -> None:
    await asyncio.to_thread(launcher.start, touching(tmp_path / "first"), [2])
    await wait_for(tmp_path / "first")
    assert launcher._socket is not None
    launcher._socket.close()
    launcher._socket, program = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asking = asyncio.create_task(asyncio.to_thread(launcher.start, touching(tmp_path / "2"), [2]))
    with program:
        assert await asyncio.to_thread(program.recv, 9999)
    with pytest.raises(OSError, match="ended"):
        await asking
    await asyncio.to_thread(launcher.start, touching(tmp_path / "last"), [2])
    await wait_for(tmp_path / "last")
    assert sorted(await asyncio.to_thread(os.listdir, tmp_path)) == ["first", "last"]


def test_it_is_tried_again_after_it_could_not_be_started(
    launcher: Launcher, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken[0] + 3, 64), hard))
    try:
        while True:
            taken.append(os.dup(taken[0]))
    except OSError:
        for fd in taken[-2:]:  # enough for its socket, and for no process
            os.close(fd)
        with pytest.raises(OSError, match="Too many open files"):
            launcher.start(touching(tmp_path / "file"), [2])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken[:-2]:
            os.close(fd)
    assert launcher.start(touching(tmp_path / "file"), [2])


def test_it_ends_quietly_with_an_executor_that_was_killed(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-I", "-S", launch.__file__]
    with (
        theirs,
        subprocess.Popen(command, stdin=theirs.fileno(), stderr=subprocess.PIPE) as program,
    ):
        with ours:
            socket.send_fds(ours, [marshal.dumps(touching(tmp_path / "file"))], [2])
            select.select([ours], [], [])  # its answer is there, and is not read
        assert program.communicate(timeout=20)[1] == b""
    assert program.returncode == 0


async def test_nothing_is_left_of_boxes_that_ended(launcher: Launcher, tmp_path: Path) -> None:
    """Neither a process, nor a descriptor that the next box would inherit."""
    for number in range(3):
        request = touching(tmp_path / f"{number}")
        request["argv"] = ["/bin/sh", "-c", f"ls /proc/self/fd > {tmp_path}/fds; exit 3"]
        await asyncio.to_thread(launcher.start, request, [2, 2])
    program = launcher._program
    assert program is not None

    def has_children() -> bool:
        return program.pid in children_of(read_table())

    await until(lambda: asyncio.to_thread(lambda: not has_children()))
    assert len(await asyncio.to_thread(os.listdir, f"/proc/{program.pid}/fd")) == 4
    numbers = (await asyncio.to_thread((tmp_path / "fds").read_text)).split()
    assert sorted(map(int, numbers)) == [0, 1, 2, 3, 100]
