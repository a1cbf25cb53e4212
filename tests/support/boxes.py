"""Real boxes for tests: every backend by its name, and a console to run things in one."""

import asyncio
import hashlib
import os
import random
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from executor_service.backends.base import (
    MIB,
    Backend,
    Box,
    BoxSpec,
    Capabilities,
    Limits,
    WorkspacePlace,
)
from executor_service.backends.bubblewrap.backend import BubblewrapBackend
from executor_service.backends.docker.backend import DockerBackend
from executor_service.backends.local import LocalBackend, LocalOptions
from executor_service.backends.modal.backend import ModalBackend
from executor_service.backends.singularity.backend import SingularityBackend
from executor_service.backends.ssh.backend import SshBackend
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.config import ExecutorConfig
from executor_service.errors import ExecutorError
from executor_service.link.exec_handle import ExecHandle
from executor_service.link.link import Hello, SupervisorLink, open_link
from executor_service.link.messages import StartCommand
from executor_service.records.sandboxes import Exit, Isolation
from services.config.settings import load_settings
from tests.fakes.kubernetes.running import StandIn
from tests.support.grounds import Ground, ground
from tests.support.kubernetes_cluster import backend_of
from tests.support.requirements import require
from tests.support.users import UID, users_python

SMALL = Limits(memory_bytes=256 * MIB, cpu_count=1, pids=64, tmp_bytes=32 * MIB)
BOMB = """
import os
leader = os.getpid()
while True:
    try:
        os.fork()
    except OSError:
        if os.getpid() == leader:
            print("full", flush=True)
"""
"""A program of Python that starts as many processes as it can."""

Make = Callable[[str, Path], Backend]
"""An owner, and a folder for the backend's own notes."""


BACKENDS = (
    *("bubblewrap", "docker", "gvisor", "kubernetes", "local", "modal", "singularity", "ssh"),
)


def maker(name: str, ground: Ground, folder: Path) -> Make:
    """What makes backends of a name, on what they stand on."""
    config = load_settings({}, {"HERMES_HOME": str(folder), **ground.environ}).load(ExecutorConfig)
    zipapp = build_zipapp()
    match name:
        case "bubblewrap":
            return lambda owner, folder: BubblewrapBackend(owner, folder, zipapp)
        case "docker" | "gvisor":
            return lambda owner, folder: DockerBackend(owner, folder, zipapp, config.docker)
        case "singularity":
            return lambda owner, folder: SingularityBackend(
                owner, folder, zipapp, config.singularity
            )
        case "modal":
            return lambda owner, own: ModalBackend(owner, own, zipapp, config.modal, folder)
        case "ssh":
            return lambda owner, _: SshBackend(owner, zipapp, config.ssh)
        case "kubernetes":
            assert isinstance(ground.server, StandIn)
            return partial(_in_cluster, ground.server)
        case _:
            return _local(folder, zipapp)


def _in_cluster(stand_in: StandIn, owner: str, _: Path) -> Backend:
    return backend_of(stand_in, owner)


def _local(folder: Path, zipapp: bytes) -> Make:
    make, python = LocalBackend, users_python()
    if os.geteuid() == 0:
        make, python = UsersLocal, _python_as_user(folder, python)
    options = LocalOptions(is_allowed=True, python=python)
    return lambda owner, folder: make(owner, folder, zipapp, options)


class UsersLocal(LocalBackend):
    """An ordinary user's, where the tests are root's, and whoever makes workspaces."""

    def __init__(self, owner: str, folder: Path, supervisor: bytes, options: LocalOptions) -> None:
        super().__init__(owner, folder, supervisor, options)
        self._user = UID

    async def create(self, spec: BoxSpec) -> Box:
        with suppress(FileNotFoundError):
            await asyncio.to_thread(os.chown, spec.workspace, UID, UID)
        return await super().create(spec)

    def _install(self) -> Path:
        program = super()._install()
        os.chown(self._folder, UID, UID)
        return program


def _python_as_user(folder: Path, python: str) -> str:
    """A Python that is the ordinary user's from its first line on.

    To fork as another user runs gRPC's handlers in the child, which crash there.
    """
    path = folder / "python"
    user = f"--reuid {UID} --regid {UID} --clear-groups"
    path.write_text(f'#!/bin/sh\nexec setpriv {user} {python} "$@"\n')
    path.chmod(0o755)
    return str(path)


USUAL = ("bubblewrap", "docker")
"""Backends that every run of the tests has; the others are for `make test-all`."""


def backends(names: Iterable[str] = BACKENDS, usual: Sequence[str] = USUAL) -> list[Any]:
    """Test parameters of these names, each slow unless it is a usual backend's."""
    slow = pytest.mark.slow
    return [name if name in usual else pytest.param(name, marks=slow) for name in names]


BUBBLEWRAP_FIRST = backends(USUAL, usual=USUAL[:1])
"""For what the executor itself does, whatever makes its boxes."""


@dataclass(frozen=True, slots=True)
class Yard:
    """A backend of the test's own and what its boxes are made from."""

    make: Make
    owner: str
    folder: Path
    backend: Backend
    capabilities: Capabilities

    @classmethod
    async def open(cls, make: Make, owner: str, folder: Path) -> Self:
        """A backend's own object."""
        backend = await asyncio.to_thread(make, owner, folder / "backend")
        return cls(make, owner, folder, backend, await backend.probe())

    async def again(self) -> Self:
        """A second object of the same backend and owner, as after the executor's restart."""
        return await self.open(self.make, self.owner, self.folder)

    @property
    def has_folders(self) -> bool:
        """Whether workspaces are folders of this machine."""
        return self.capabilities.workspaces is WorkspacePlace.HERE

    @property
    def is_apart(self) -> bool:
        """Whether boxes are kept apart from their machine and from each other."""
        return self.capabilities.isolation is not Isolation.NONE

    def spec(self, limits: Limits = SMALL, workspace: Path | None = None) -> BoxSpec:
        """A box, with a new, empty workspace if none is given."""
        return new_spec(self.owner, self.folder, limits, workspace)

    @asynccontextmanager
    async def box(
        self, limits: Limits = SMALL, workspace: Path | None = None
    ) -> AsyncGenerator[Box]:
        """A box for the time of the block."""
        spec = await asyncio.to_thread(self.spec, limits, workspace)
        box = await self.backend.create(spec)
        try:
            yield box
        finally:
            await self.backend.destroy(box)

    async def close(self) -> None:
        """End all boxes of the owner."""
        for box in await self.backend.list_boxes():
            await self.backend.destroy(box)
        await self.backend.close()


def odd_seconds() -> str:
    """A time to sleep that is like nobody else's, wherever the processes of others are seen."""
    return str(random.randrange(10**6, 10**7))


SECRET = "secret"
"""Of the boxes of tests."""
SECRET_SHA256 = hashlib.sha256(SECRET.encode()).hexdigest()


def new_spec(
    owner: str, folder: Path, limits: Limits = SMALL, workspace: Path | None = None
) -> BoxSpec:
    """What a box shall be, with a new workspace in the folder if none is given."""
    key = f"box_{uuid.uuid4().hex}"
    if workspace is None:
        workspace = folder / key
        workspace.mkdir()
        if os.geteuid() == 0:
            os.chown(workspace, 1000, 1000)
    return BoxSpec(key, owner, "test", workspace, limits, secret_sha256=SECRET_SHA256)


@asynccontextmanager
async def open_yard(name: str, folder: Path) -> AsyncGenerator[Yard]:
    """The backend of that name if it runs here, and at the end no box of it is left."""
    async with ground(name, folder) as found:
        make = await asyncio.to_thread(maker, name, found, folder)
        yard = await Yard.open(make, f"test-{uuid.uuid4().hex}", folder)
        require(name, yard.capabilities.available, yard.capabilities.reason)
        try:
            yield yard
        finally:
            await yard.close()


class Recorder:
    """Keeps what a command does; acknowledges output at once unless told not to."""

    def __init__(self, command: ExecHandle, acknowledges: bool = True, keeps: bool = True) -> None:
        self.command = command
        self.acknowledges = acknowledges
        self.received = {1: bytearray(), 2: bytearray()}
        self.keeps = keeps
        self.digest = hashlib.sha256()
        """Of what is not kept."""
        self.received_bytes = 0
        self.stdin_taken_bytes = 0
        self.errors: list[ExecutorError] = []
        self.over = asyncio.Event()
        self.moved = asyncio.Event()

    def output(self, fd: int, offset: int, data: memoryview) -> None:
        self.received_bytes += len(data)
        if self.keeps:
            self.received[fd] += data
        else:
            self.digest.update(data)
        if self.acknowledges:
            self.command.ack(fd, offset + len(data))
        self.moved.set()

    def stdin_taken(self, offset: int) -> None:
        self.stdin_taken_bytes = offset

    def exited(self, exit_: Exit) -> None:
        assert exit_ is self.command.exit
        self.over.set()
        self.moved.set()

    def lost(self, error: ExecutorError) -> None:
        self.errors.append(error)
        self.over.set()
        self.moved.set()

    @property
    def stdout(self) -> str:
        return self.received[1].decode()

    @property
    def stderr(self) -> str:
        return self.received[2].decode()

    async def until(self, condition: Callable[["Recorder"], bool], timeout_s: float = 20) -> None:
        """Wait until something has happened."""
        async with asyncio.timeout(timeout_s):
            while not condition(self):
                self.moved.clear()
                await self.moved.wait()

    async def exit(self, timeout_s: float = 30) -> Exit:
        """Wait for the end."""
        async with asyncio.timeout(timeout_s):
            await self.over.wait()
        assert not self.errors, self.errors
        assert self.command.exit is not None
        return self.command.exit


@dataclass(slots=True)
class Console:
    """Runs commands over one link."""

    link: SupervisorLink

    async def start(self, *argv: str, **options: Any) -> Recorder:
        """Start a command; the recorder is its sink."""
        exec_id = options.pop("exec_id", None) or f"exc_{uuid.uuid4().hex}"
        recorders: list[Recorder] = []
        wanted = [options.pop(name, True) for name in ("acknowledges", "keeps")]

        def adopt(command: ExecHandle) -> Recorder:
            recorders.append(Recorder(command, *wanted))
            return recorders[0]

        await self.link.start(StartCommand(exec_id, argv, **options), adopt)
        return recorders[0]

    async def shell(self, script: str, **options: Any) -> Recorder:
        """Start a shell."""
        return await self.start("/bin/sh", "-c", script, **options)

    async def run(self, script: str, **options: Any) -> Recorder:
        """Run a shell script to its end."""
        recorder = await self.shell(script, **options)
        await recorder.exit()
        return recorder

    async def output(self, script: str, **options: Any) -> str:
        """What a script that must succeed prints, without the last line end."""
        recorder = await self.run(script, **options)
        exit_ = await recorder.exit()
        assert exit_.code == 0, (exit_, recorder.stderr)
        return recorder.stdout.rstrip("\n")

    async def python(self, script: str, **options: Any) -> str:
        """What a Python script that must succeed prints."""
        recorder = await self.start("/usr/bin/env", "python3", "-c", script, **options)
        exit_ = await recorder.exit()
        assert exit_.code == 0, (exit_, recorder.stderr)
        return recorder.stdout.rstrip("\n")


def refuse(_command: ExecHandle) -> None:
    """Adopt no command: a new box has none."""


@asynccontextmanager
async def open_console(
    backend: Backend, box: Box, epoch: int = 1, adopt: Any = refuse, **hello: Any
) -> AsyncGenerator[Console]:
    """A link to a box and a console on it."""
    stream = await backend.connect(box)
    async with open_link(stream, Hello(box.key, SECRET, epoch, **hello), adopt) as link:
        yield Console(link)
