"""A backend that is silent while an executor starts: what it has is neither there nor lost."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, cast

import grpc.aio
import pytest

from agent_service.clients.executors import Executors
from executor_service.journal import Journal
from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.auth import Identity
from services.channels import Channels
from services.config import Settings
from services.errors import Reason, reason_of
from services.lifecycle import Workers
from tests.docker_engine import docker_client
from tests.executor_client import Client
from tests.executors import Process, executor_settings, refused

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


async def acquired(client: Client, session_id: str) -> sandbox_pb2.AcquireSandboxResponse:
    """A session's sandbox, once the executor can tell whether it has one."""
    async with asyncio.timeout(TOLD_WITHIN_S):
        while True:
            try:
                return await client.acquire(session_id, template="slow")
            except grpc.aio.AioRpcError as error:
                if reason_of(error) is not Reason.BACKEND_UNAVAILABLE:
                    raise
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("lives", [True, False])
async def test_what_a_slow_backend_has_is_lost_only_if_it_says_so(
    settings: Settings, gateway: Gateway, lives: bool
) -> None:
    async with Process(settings) as before, before.client() as client:
        slow = await client.acquire("slow", template="slow")
        quick = await client.acquire("quick")
        await client.start(slow.lease, "sleep", "600", exec_id="exc_sleep")
        await client.output(slow.lease, "echo kept >file")
        await before.kill()
    if not lives:
        await remove_boxes(settings)
    gateway.opened.clear()
    began = time.monotonic()
    async with Process(settings, tokens=before.tokens) as after, after.client() as client:
        again = await client.acquire("quick")
        assert again.sandbox.sandbox_id == quick.sandbox.sandbox_id
        for asked in (
            client.acquire("slow"),
            client.get(slow.lease, "exc_sleep"),
            client.start(slow.lease, "true"),
            client.release(slow.lease),
        ):
            assert await refused(asked) is Reason.BACKEND_UNAVAILABLE
        assert time.monotonic() - began < TOLD_WITHIN_S
        gateway.opened.set()
        found = await acquired(client, "slow")
        assert (found.sandbox.sandbox_id == slow.sandbox.sandbox_id) == lives
        assert await client.output(found.lease, "cat file") == "kept"
        if lives:
            running = await client.get(found.lease, "exc_sleep")
            assert running.state == exec_pb2.EXEC_STATE_RUNNING
        else:
            assert await refused(client.start(slow.lease, "true")) is Reason.SANDBOX_LOST
        await client.release(found.lease)
        await client.release(again.lease)


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
