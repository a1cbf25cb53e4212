"""A backend that is silent while an executor starts: what it has is neither there nor lost."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, cast

import pytest

from agent_service.clients.executors import Executors
from executor_service.journal import Journal
from hermes.executor.v1 import sandbox_pb2
from services.config.settings import Settings
from services.errors import Reason
from services.lifecycle import Workers
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from tests.support.docker_engine import docker_client
from tests.support.executors import Process, executor_settings, refused

pytestmark = pytest.mark.slow

ENGINE = "/var/run/docker.sock"
TOLD_WITHIN_S = 10.0
AWAY_S = 0.5
"""How long an agent waits for an executor that has a successor."""


class Gateway:
    """The way to the Docker engine, which can be closed: then it takes calls and answers none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.opened = asyncio.Event()
        self.opened.set()
        self._workers = Workers()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._workers.start("call", self._pass_on(reader, writer))

        self._server = await asyncio.start_unix_server(serve, self.path)
        return self

    async def __aexit__(self, *error: Any) -> None:
        assert self._server is not None
        self._server.close()
        await self._workers.__aexit__(*error)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.opened.wait()
        from_engine, to_engine = await asyncio.open_unix_connection(ENGINE)
        await asyncio.gather(_copy(reader, to_engine), _copy(from_engine, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with Gateway(tmp_path / "engine.sock") as gateway:
        yield gateway


@pytest.fixture
async def settings(tmp_path: Path, gateway: Gateway) -> AsyncIterator[Settings]:
    """Those of an executor that has a template whose backend is behind the gateway."""
    template = {"backend": "docker", "settings": {"host": f"unix://{gateway.path}"}}
    text = json.dumps({"executor": {"templates": {"slow": template}}})

    def read() -> Settings:
        docker_client().close()
        (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
        return executor_settings(tmp_path, "bubblewrap", HERMES_KEEP_SANDBOXES="true")

    settings = await asyncio.to_thread(read)
    await asyncio.to_thread(settings.home.create)
    yield settings
    await remove_boxes(settings)


async def remove_boxes(settings: Settings) -> None:
    """Remove the containers of an executor that does not run, as somebody else may do."""
    async with Journal(settings.home.state / "executor" / "journal.db") as journal:
        owner = journal.owner

    def remove() -> None:
        client = docker_client()
        try:
            label = {"label": f"org.hermes.owner={owner}"}
            for box in cast("Any", client.containers).list(all=True, filters=label):
                box.remove(force=True)
        finally:
            client.close()

    await asyncio.to_thread(remove)


async def test_an_agent_gives_up_neither_what_a_slow_backend_has_nor_its_executor(
    settings: Settings, gateway: Gateway, tmp_path: Path
) -> None:
    async with Process(settings) as before, before.client() as client:
        slow = await client.acquire("slow", template="slow")
        quick = await client.acquire("quick")
        await before.kill()
    gateway.opened.clear()
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
        gateway.opened.set()
        found = await waiting
        assert found.sandbox.sandbox_id == slow.sandbox.sandbox_id
        await client.release(found.lease)
        await client.release(again.lease)
