"""A backend that is silent while an executor starts: what it has is neither there nor lost."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_service.clients.executors import Executors
from hermes.executor.v1 import sandbox_pb2
from services.config.settings import Settings
from services.errors import Reason
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from tests.support.docker_engine import docker_client
from tests.support.executors import Process, end_boxes, executor_settings, refused

pytestmark = pytest.mark.slow

ENGINE = "/var/run/docker.sock"
TOLD_WITHIN_S = 10.0
AWAY_S = 0.5
"""How long an agent waits for an executor that has a successor."""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A way to the Docker engine, which can be silenced."""
    path = tmp_path / "engine.sock"
    path.symlink_to(ENGINE)
    return path


@pytest.fixture
async def settings(tmp_path: Path, engine: Path) -> AsyncIterator[Settings]:
    """Those of an executor that has a template that uses the engine."""
    template = {"backend": "docker", "settings": {"host": f"unix://{engine}"}}
    text = json.dumps({"executor": {"templates": {"slow": template}}})

    def read() -> Settings:
        docker_client().close()
        (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
        return executor_settings(tmp_path, "bubblewrap", HERMES_KEEP_SANDBOXES="true")

    settings = await asyncio.to_thread(read)
    await asyncio.to_thread(settings.home.create)
    yield settings
    environ = {**settings.environ, "HERMES_BACKEND": "docker"}
    await end_boxes(replace(settings, environ=environ))


def silence(engine: Path) -> socket.socket:
    """Replace the engine by one that takes calls and answers none, until it is closed."""
    engine.unlink()
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(engine))
    silent.listen()
    return silent


def restore(engine: Path) -> None:
    engine.unlink()
    engine.symlink_to(ENGINE)


async def test_an_agent_gives_up_neither_what_a_slow_backend_has_nor_its_executor(
    settings: Settings, engine: Path, tmp_path: Path
) -> None:
    async with Process(settings) as before, before.client() as client:
        slow = await client.acquire("slow", template="slow")
        quick = await client.acquire("quick")
        await before.kill()
    silent = await asyncio.to_thread(silence, engine)
    others = await asyncio.to_thread(executor_settings, tmp_path / "other", "bubblewrap")
    await asyncio.to_thread(others.home.create)
    tokens = before.tokens
    async with (
        Process(settings, tokens=tokens) as after,
        Process(others, tokens=tokens) as other,
        Channels(
            Identity.AGENT, {"executor": other.address}, token=tokens[Identity.AGENT]
        ) as channels,
        after.client() as client,
    ):

        async def claim(
            had: sandbox_pb2.AcquireSandboxResponse, executors: Executors
        ) -> sandbox_pb2.AcquireSandboxResponse:
            sandbox = had.sandbox
            request = sandbox_pb2.AcquireSandboxRequest(
                request_id=sandbox.sandbox_id, session_id=sandbox.session_id
            )
            return await executors.acquire(request, str(after.address), sandbox.sandbox_id)

        executors = Executors(channels, AWAY_S)
        assert await refused(claim(slow, executors)) is Reason.BACKEND_UNAVAILABLE
        again = await claim(quick, executors)
        assert again.sandbox.sandbox_id == quick.sandbox.sandbox_id, "its executor is there"
        waiting = asyncio.ensure_future(claim(slow, Executors(channels, TOLD_WITHIN_S)))
        await asyncio.sleep(2 * AWAY_S)
        await asyncio.to_thread(restore, engine)
        silent.close()
        found = await waiting
        assert found.sandbox.sandbox_id == slow.sandbox.sandbox_id
        await client.release(found.lease)
        await client.release(again.lease)
