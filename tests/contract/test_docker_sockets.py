"""How boxes of a Docker engine are reached: by a socket of their own, else through the engine."""

import asyncio
import json
import os
import shlex
import time
from asyncio import to_thread
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import docker
import pytest

from executor_service.backends.base import Box
from executor_service.backends.docker.sockets import BoxSockets
from executor_service.errors import BoxLost
from executor_service.link.exec_handle import ExecHandle
from tests.contract.dying_executor import DyingExecutor
from tests.support.boxes import Recorder, Yard, open_console, open_yard
from tests.support.docker_engine import run_in
from tests.support.requirements import require

BACKEND = """
from executor_service.backends.docker.backend import DockerBackend
from executor_service.config import DockerConfig
def Backend(*made_of): return DockerBackend(*made_of, DockerConfig())
"""
SLOWER = "boxes are reached through the engine, which is slower"
LONG_AGO = 1_000_000_000
LOOK = """
import contextlib, glob, json, os, socket

def attempt(address):
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(address)
        except OSError:
            return False
    return True

def descriptors():
    for folder in glob.glob("/proc/[0-9]*/fd"):
        for name in os.listdir(folder) if os.access(folder, os.R_OK) else ():
            with contextlib.suppress(OSError):
                yield os.readlink(f"{folder}/{name}")

mounts = [line.split() for line in open("/proc/self/mountinfo")]
named = [line.split()[7] for line in open("/proc/net/unix").readlines()[1:] if line.count(" ") > 6]
print(json.dumps({
    "sees": os.listdir("/opt/hermes-handover"),
    "mounted": [mount[5].split(",")[0] for mount in mounts if mount[4] == "/opt/hermes-handover"],
    "descriptors": [name for name in descriptors() if name.startswith("socket:")],
    "named": named,
    "reached": [name for name in NAMES if attempt(name)],
}))
"""


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard("docker", tmp_path) as opened:
        yield opened


def programs_run_in(engine: docker.DockerClient, box: Box) -> int:
    """How many the engine was asked to run in a box so far."""
    asked = {"container": box.native_id, "event": ["exec_create"]}
    # The engine takes whole seconds, and waits for the last one's end.
    events: Any = engine.api.events(since=0, until=int(time.time()) + 1, filters=asked)
    return sum(1 for _ in events)


def socket_of(yard: Yard, box: Box) -> Path:
    return yard.folder / "backend" / "boxes" / box.key / "socket"


async def test_a_box_is_reached_without_the_engine(
    yard: Yard, engine: docker.DockerClient, caplog: pytest.LogCaptureFixture
) -> None:
    async with yard.box() as box:
        successor = await yard.again()
        for epoch, backend in enumerate((yard.backend, yard.backend, successor.backend), 1):
            async with open_console(backend, box, epoch) as console:
                assert await console.output("echo here") == "here"
        await successor.backend.close()
        assert await to_thread(programs_run_in, engine, box) == 0
        await to_thread(run_in, engine, box.native_id, "true")
        assert await to_thread(programs_run_in, engine, box) == 1
        assert SLOWER not in caplog.text
        socket = socket_of(yard, box)
        assert await to_thread(lambda: list(socket.parent.iterdir())) == [socket]
    assert not await to_thread(socket.parent.exists)


async def test_commands_find_nothing_of_the_way_in(yard: Yard) -> None:
    async with yard.box() as box, open_console(yard.backend, box) as console:
        here = str(socket_of(yard, box))
        names = ["/opt/hermes-handover/socket", "\0hermes-supervisor", here]
        seen = json.loads(await console.python(f"NAMES = {names!r}\n{LOOK}"))
        assert seen == {
            "sees": [],
            "mounted": ["ro"],
            "descriptors": [],
            "named": [],
            "reached": [],
        }
        for change in (
            "touch /opt/hermes-handover/x",
            "mkdir /opt/hermes-handover/x",
            f"ls {here}",
        ):
            assert (await (await console.run(change)).exit()).code != 0


async def test_a_successor_of_a_killed_executor_uses_the_same_socket(
    yard: Yard, engine: docker.DockerClient
) -> None:
    await to_thread(DyingExecutor(BACKEND, yard.folder, yard.owner).run)
    (box,) = await yard.backend.list_boxes()
    assert await finish(yard, box) == 5
    assert await to_thread(programs_run_in, engine, box) == 0


async def finish(yard: Yard, box: Box) -> int | None:
    """Take a counting command of a killed executor over, and see that it counts to its end."""
    recorders: list[Recorder] = []

    def adopt(command: ExecHandle) -> Recorder:
        recorders.append(Recorder(command))
        return recorders[-1]

    async with open_console(yard.backend, box, 2, adopt):
        exit_ = await recorders[0].exit()
    assert recorders[0].stdout.split() == [str(n) for n in range(40)]
    return exit_.code


@pytest.mark.parametrize("what_the_engine_sees", ["nothing", "another folder"])
async def test_where_the_engine_has_other_folders_it_is_the_way_in(
    yard: Yard, engine: docker.DockerClient, what_the_engine_sees: str
) -> None:
    require("root", os.geteuid() == 0, "only root can hide a folder")
    hidden = yard.folder / "backend"
    seen = hidden / "boxes" / "box_of_the_dead" / "handover"
    await to_thread((hidden if what_the_engine_sees == "nothing" else seen).mkdir, parents=True)
    hide = f'mount -t tmpfs none {shlex.quote(str(hidden))} && exec "$@"'
    through = ("unshare", "--mount", "sh", "-c", hide, "sh")
    dying = DyingExecutor(BACKEND, yard.folder, yard.owner, through=through)
    assert (await to_thread(dying.run)).count(SLOWER) == 1
    (box,) = await yard.backend.list_boxes()
    assert await finish(yard, box) == 5
    assert await to_thread(programs_run_in, engine, box) > 1


async def test_a_box_that_has_ended_is_lost_at_once(
    yard: Yard, engine: docker.DockerClient
) -> None:
    async with yard.box() as box:
        stream = await yard.backend.connect(box)
        await to_thread(engine.api.kill, box.native_id, "SIGKILL")
        async with asyncio.timeout(5):
            assert await stream.read(1) == b""
        await stream.close()
        with pytest.raises(BoxLost, match=box.key):
            await yard.backend.connect(box)


async def test_what_boxes_leave_behind_is_removed(yard: Yard, engine: docker.DockerClient) -> None:
    boxes = yard.folder / "backend" / "boxes"

    def names() -> set[str]:
        return {each.name for each in boxes.iterdir()}

    async with yard.box() as living, yard.box() as dead:
        await to_thread(engine.api.remove_container, dead.native_id, force=True)
        await to_thread((boxes / "half_made").mkdir)
        await yard.backend.list_boxes()
        assert await to_thread(names) == {living.key, dead.key, "half_made"}
        for name in await to_thread(names):
            os.utime(boxes / name, (LONG_AGO, LONG_AGO))
        # That of another engine's box, too, is left alone as long as somebody listens.
        await BoxSockets(boxes).forget_others(set())
        assert await to_thread(names) == {living.key}
        async with open_console(yard.backend, living) as console:
            assert await console.output("echo here") == "here"


@pytest.mark.slow
async def test_behind_gvisor_the_engine_is_the_way_in(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    async with open_yard("gvisor", tmp_path) as yard, yard.box() as box:
        async with open_console(yard.backend, box) as console:
            assert await console.output("echo here") == "here"
        assert await to_thread(programs_run_in, engine, box) > 0
        assert not await to_thread(socket_of(yard, box).exists)
