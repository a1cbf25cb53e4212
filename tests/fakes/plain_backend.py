"""Boxes without walls: the real supervisor as an ordinary process that tests can break."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from executor_service.backends.base import Box, BoxSpec, Capabilities
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.errors import BackendUnavailable, BoxCreateFailed, BoxLost
from executor_service.link.byte_streams import SocketStream
from executor_service.records.sandboxes import Isolation
from executor_service.supervisor.frames import REMEMBERED

NAME = "plain"


@dataclass(frozen=True, slots=True)
class _Running:
    box: Box
    process: subprocess.Popen[bytes]
    address: Path
    temporary: str


class PlainBackend:
    """A `Backend` whose boxes are fast to make and easy to break."""

    def __init__(self, folder: Path) -> None:
        self.made = 0
        self.fails = 0
        """How many boxes cannot be made from now on."""
        self.gate = asyncio.Event()
        """Boxes are made while it is set."""
        self.gate.set()
        self.told = asyncio.Event()
        """Whoever asked for a box hears of it while it is set."""
        self.told.set()
        self.lets_go = asyncio.Event()
        """Boxes are destroyed while it is set."""
        self.lets_go.set()
        self.listed = asyncio.Event()
        """Cleared, a list is made and not yet given."""
        self.listed.set()
        self.reachable = asyncio.Event()
        """Boxes are connected to while it is set."""
        self.reachable.set()
        self.is_away = False
        """Whether it does not answer."""
        self.streams: list[SocketStream] = []
        self._folder = folder
        self._boxes: dict[str, _Running] = {}

    @property
    def keys(self) -> list[str]:
        """The boxes that there are."""
        return list(self._boxes)

    @property
    def boxes_outlive_outages(self) -> bool:
        return True

    async def probe(self) -> Capabilities:
        return Capabilities(NAME, True, "for tests", Isolation.NONE)

    async def create(self, spec: BoxSpec) -> Box:
        await self.gate.wait()
        if self.fails:
            self.fails -= 1
            raise BoxCreateFailed("no box today")
        running = await asyncio.to_thread(self._start, spec)
        self._boxes[spec.box_key] = running
        self.made += 1
        await self.told.wait()
        return running.box

    async def connect(self, box: Box) -> SocketStream:
        await self.reachable.wait()
        if self.is_away:
            raise BackendUnavailable("nobody answers")
        running = self._boxes.get(box.key)
        if running is None:
            raise BoxLost(f"there is no box {box.key}")
        try:
            stream = SocketStream(await asyncio.to_thread(_connect, running.address))
        except OSError as error:
            raise BoxLost(str(error)) from error
        self.streams.append(stream)
        return stream

    async def destroy(self, box: Box) -> None:
        await self.lets_go.wait()
        running = self._boxes.get(box.key)
        if running is not None:
            await asyncio.to_thread(_stop, running.process)
            await asyncio.to_thread(shutil.rmtree, running.temporary, ignore_errors=True)
            self._boxes.pop(box.key, None)

    async def list_boxes(self) -> list[Box]:
        boxes = [running.box for running in self._boxes.values()]
        await self.listed.wait()
        return boxes

    async def close(self) -> None:
        pass

    async def cut(self) -> None:
        """Break every link; the boxes go on."""
        streams, self.streams = self.streams, []
        for stream in streams:
            await stream.close()

    def kill(self, key: str) -> None:
        """Have a box die."""
        self._boxes[key].process.kill()

    def _start(self, spec: BoxSpec) -> _Running:
        program = self._folder / "supervisor.pyz"
        if not program.exists():
            # Whole or not at all: others look at the same moment.
            part = self._folder / f"{spec.box_key}.part"
            part.write_bytes(build_zipapp())
            part.replace(program)
        address = self._folder / spec.box_key[-12:]
        # Short, as browsers have sockets there.
        temporary = tempfile.mkdtemp(prefix="box-")
        ready, told = socket.socketpair()
        process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", program, "--socket", address),
                *("--box", spec.box_key, "--workspace", spec.workspace),
                *("--secret-sha256", spec.secret_sha256),
                *("--ready-fd", str(told.fileno())),
            ],
            pass_fds=[told.fileno()],
            # Commands keep their folder there, and boxes have none of their own.
            env={"PATH": os.defpath, "TMPDIR": temporary},
        )
        told.close()
        with ready:
            ready.recv(1)
            ready.sendall(REMEMBERED)
        box = Box(spec.box_key, NAME, str(process.pid), spec.workspace, spec.pool)
        return _Running(box, process, address, temporary)


def _connect(address: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(str(address))
    except OSError:
        sock.close()
        raise
    return sock


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
