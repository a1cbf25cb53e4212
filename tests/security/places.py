"""What each backend stands on in these tests, and how a sandbox of it gets lost."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import docker

from executor_service.backends.kubernetes.pod import pod_name
from services.config import Settings
from tests import apptainer
from tests.boxes import open_yard
from tests.docker_engine import docker_client, own_engine
from tests.executors import executor_settings
from tests.fakes.kubernetes.faults import evict
from tests.fakes.modal.service import ModalService, modal_service
from tests.kubernetes_cluster import cluster
from tests.requirements import require
from tests.ssh_server import ssh_server

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


@asynccontextmanager
async def _bubblewrap(_folder: Path) -> AsyncGenerator[Place]:
    yield Place("bubblewrap", _kill("bubblewrap"), is_slow=False)


@asynccontextmanager
async def _docker(_folder: Path) -> AsyncGenerator[Place]:
    await asyncio.to_thread(lambda: docker_client().close())
    yield Place("docker", _remove, is_slow=False)


@asynccontextmanager
async def _gvisor(folder: Path) -> AsyncGenerator[Place]:
    async with open_yard("gvisor", folder), _docker(folder) as place:
        yield replace(place, environ={"HERMES_DOCKER_RUNTIME": "runsc"}, is_slow=True)


@asynccontextmanager
async def _singularity(_folder: Path) -> AsyncGenerator[Place]:
    options = apptainer.options()
    environ = {
        "HERMES_SINGULARITY_IMAGE": options.image,
        "HERMES_SINGULARITY_PROGRAM": options.program,
    }
    yield Place("singularity", _kill("singularity"), environ=environ)


@asynccontextmanager
async def _ssh(_folder: Path) -> AsyncGenerator[Place]:
    with ExitStack() as stack:
        server = await asyncio.to_thread(stack.enter_context, ssh_server())
        environ = server.environ
        try:
            yield Place(
                "ssh",
                lambda _home, _sandbox_id: asyncio.to_thread(server.stop),
                lambda: asyncio.to_thread(server.start),
                environ,
            )
        finally:
            await asyncio.to_thread(stack.close)


@asynccontextmanager
async def _kubernetes(folder: Path) -> AsyncGenerator[Place]:
    with ExitStack() as stack:
        stand_in = await asyncio.to_thread(stack.enter_context, cluster(folder / "cluster"))

        def lose(_home: Path, sandbox_id: str) -> Awaitable[object]:
            why = "The node was low on resource: memory."
            return stand_in.do(lambda there: evict(there, pod_name(sandbox_id), why))

        environ = {"HERMES_KUBERNETES_KUBECONFIG": str(stand_in.kubeconfig)}
        try:
            yield Place("kubernetes", lose, environ=environ)
        finally:
            await asyncio.to_thread(stack.close)


@asynccontextmanager
async def _modal(folder: Path) -> AsyncGenerator[Place]:
    async with modal_service(folder / "cloud") as service:
        require("modal", not service.obstacle, service.obstacle)

        async def end(_home: Path, sandbox_id: str) -> None:
            living = await service.living()
            (found,) = [ident for ident, tags in living.items() if sandbox_id in tags.values()]
            await service.ask(end=found)

        yield Place("modal", end, environ=_modal_environ(service))


def _modal_environ(service: ModalService) -> dict[str, str]:
    token_id, token_secret = service.token
    return {
        "MODAL_TOKEN_ID": token_id,
        "MODAL_TOKEN_SECRET": token_secret,
        "HERMES_MODAL_SERVER_URL": service.url,
    }


@asynccontextmanager
async def _engine(_folder: Path) -> AsyncGenerator[Place]:
    with ExitStack() as stack:
        engine = await asyncio.to_thread(stack.enter_context, own_engine())
        try:
            yield Place(
                "docker",
                lambda _home, _sandbox_id: asyncio.to_thread(engine.stop),
                lambda: asyncio.to_thread(engine.start),
                {"DOCKER_HOST": engine.host},
            )
        finally:
            await asyncio.to_thread(stack.close)


@asynccontextmanager
async def _failing_modal(folder: Path) -> AsyncGenerator[Place]:
    """Its API answers with errors only, and streams break."""
    async with modal_service(folder / "cloud") as service:
        require("modal", not service.obstacle, service.obstacle)

        async def fail(times: int) -> None:
            for call in ("TaskExecStart", "SandboxGetTaskId", "TaskGetCommandRouterAccess"):
                await service.fail(call, "INTERNAL", times)

        async def lose(_home: Path, _sandbox_id: str) -> None:
            await fail(1000)
            await service.ask(kill_commands=True)

        yield Place("modal", lose, lambda: fail(0), _modal_environ(service))


PLACES: Mapping[str, Callable[[Path], AbstractAsyncContextManager[Place]]] = {
    "bubblewrap": _bubblewrap,
    "docker": _docker,
    "gvisor": _gvisor,
    "kubernetes": _kubernetes,
    "modal": _modal,
    "singularity": _singularity,
    "ssh": _ssh,
}
"""Every backend's but `local`, which refuses to be root's; made in a folder."""
LOSSES = {
    **PLACES,
    "docker engine restarted": _engine,
    "modal answering with errors": _failing_modal,
}
"""Every way in which sandboxes get lost."""
EVERYTHING_HELD = ("bubblewrap", "docker")
"""Backends that all attacks are made on; the others isolate less, or leave it to who runs them."""
