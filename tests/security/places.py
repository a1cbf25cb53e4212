"""What each backend stands on in these tests, and how a sandbox of it gets lost."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import docker

from executor_service.backends.kubernetes.pod import pod_name
from services.config.settings import Settings
from tests.fakes.kubernetes.faults import evict
from tests.fakes.kubernetes.running import StandIn
from tests.fakes.modal.service import ModalService
from tests.support.boxes import BACKENDS, open_yard
from tests.support.docker_engine import OwnEngine, docker_client
from tests.support.executors import executor_settings
from tests.support.grounds import OWN_ENGINE, Ground, ground
from tests.support.ssh_server import SshServer

Lose = Callable[[Path, str], Awaitable[object]]
"""Makes a sandbox vanish: takes the executor's home and the sandbox's id."""


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Place:
    """Where sandboxes are made."""

    backend: str
    lose: Lose
    """As somebody else might, or the machine."""
    mend: Callable[[], Awaitable[object]] = _nothing
    """Sandboxes can be had again after that."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    is_slow: bool = True
    """Whether some attacks are made less often there."""

    def settings(self, home: Path, **environ: str) -> Settings:
        """Those of an executor that makes its sandboxes here."""
        return executor_settings(home, self.backend, **{**self.environ, **environ})


def _kill(backend: str) -> Lose:
    """For boxes that are processes: their first one is killed."""

    def kill(home: Path, sandbox_id: str) -> None:
        record = home / "state" / "executor" / backend / "boxes" / sandbox_id / "box.json"
        os.kill(json.loads(record.read_text())["first"]["pid"], signal.SIGKILL)

    return lambda home, sandbox_id: asyncio.to_thread(kill, home, sandbox_id)


async def _remove(_home: Path, sandbox_id: str) -> None:
    def remove() -> None:
        client = docker.from_env(timeout=30)
        client.api.remove_container(f"hermes-box-{sandbox_id}", force=True)
        client.close()

    await asyncio.to_thread(remove)


EVERYTHING_HELD = ("bubblewrap", "docker")
"""Backends that all attacks are made on; the others isolate less, or leave it to who runs them."""
PLACES = tuple(name for name in BACKENDS if name != "local")
"""Every backend's but `local`, which refuses to be root's."""
ERRORS = "modal answering with errors"
LOSSES = (*PLACES, OWN_ENGINE, ERRORS)
"""Every way in which sandboxes get lost."""


@asynccontextmanager
async def open_place(name: str, folder: Path) -> AsyncGenerator[Place]:
    """Where a backend makes sandboxes, or one of the ways in which they get lost."""
    if name in ("docker", "gvisor"):
        await asyncio.to_thread(lambda: docker_client().close())
    if name == "gvisor":
        async with open_yard(name, folder):
            pass  # skips where it cannot be had
    async with ground("modal" if name == ERRORS else name, folder) as found:
        yield replace(
            _place(name, found), environ=found.environ, is_slow=name not in EVERYTHING_HELD
        )


def _place(name: str, found: Ground) -> Place:
    server = found.server
    match server:
        case ModalService():
            return _failing(server) if name == ERRORS else Place("modal", partial(_end, server))
        case StandIn():

            def lose(_home: Path, sandbox_id: str) -> Awaitable[object]:
                why = "The node was low on resource: memory."
                return server.do(lambda there: evict(there, pod_name(sandbox_id), why))

            return Place("kubernetes", lose)
        case OwnEngine() | SshServer():
            return Place(
                "ssh" if isinstance(server, SshServer) else "docker",
                lambda _home, _sandbox_id: asyncio.to_thread(server.stop),
                lambda: asyncio.to_thread(server.start),
            )
        case None:
            is_docker = name in ("docker", "gvisor")
            return Place("docker", _remove) if is_docker else Place(name, _kill(name))


async def _end(service: ModalService, _home: Path, sandbox_id: str) -> None:
    living = await service.living()
    (ident,) = [one for one, tags in living.items() if sandbox_id in tags.values()]
    await service.ask(end=ident)


def _failing(service: ModalService) -> Place:
    """Its API answers with errors only, and streams break."""

    async def fail(times: int) -> None:
        for call in ("TaskExecStart", "SandboxGetTaskId", "TaskGetCommandRouterAccess"):
            await service.fail(call, "INTERNAL", times)

    async def lose(_home: Path, _sandbox_id: str) -> None:
        await fail(1000)
        await service.ask(kill_commands=True)

    return Place("modal", lose, lambda: fail(0))
