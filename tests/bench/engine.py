"""The bare Docker engine, beside which the docker sandboxes are measured."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import Any

import docker
from docker.errors import DockerException, ImageNotFound, NotFound

from tests.bench.figures import BenchError, Missing
from tests.bench.sandboxes import PROGRAM

IMAGE = "hermes-sandbox:latest"
_TIMEOUT_S = 60


class Engine:
    """Calls of the Engine API, each in a thread and timed there."""

    def __init__(self, client: docker.DockerClient) -> None:
        self._api: Any = client.api

    async def cold_ms(self) -> float:
        """Create and start a container and run a command in it, which is its time; then end it."""
        container, took_ms = await asyncio.to_thread(self._cold)
        await asyncio.to_thread(self._remove, container)
        return took_ms

    @asynccontextmanager
    async def container(self) -> AsyncGenerator[str]:
        """Run a container that does nothing."""
        container = await asyncio.to_thread(self._start)
        try:
            yield container
        finally:
            await asyncio.to_thread(self._remove, container)

    async def exec_ms(self, container: str) -> float:
        """Run a command in a container."""
        return await asyncio.to_thread(self._timed_exec, container)

    def _start(self) -> str:
        host = self._api.create_host_config(network_mode="none")
        made = self._api.create_container(
            IMAGE, ["sleep", "infinity"], host_config=host, stop_signal="KILL"
        )
        self._api.start(made["Id"])
        return made["Id"]

    def _cold(self) -> tuple[str, float]:
        begun = perf_counter()
        container = self._start()
        self._exec(container)
        return container, (perf_counter() - begun) * 1_000

    def _timed_exec(self, container: str) -> float:
        begun = perf_counter()
        self._exec(container)
        return (perf_counter() - begun) * 1_000

    def _exec(self, container: str) -> None:
        made = self._api.exec_create(container, [PROGRAM])
        self._api.exec_start(made["Id"])
        status = self._api.exec_inspect(made["Id"])["ExitCode"]
        if status != 0:
            raise BenchError(f"the engine's own command ended with status {status}")

    def _remove(self, container: str) -> None:
        with suppress(NotFound):
            self._api.remove_container(container, force=True)


@asynccontextmanager
async def engine() -> AsyncGenerator[Engine]:
    """Connect to the engine; fails with Missing where there is none or it lacks the image."""
    client = await asyncio.to_thread(_connect)
    try:
        yield Engine(client)
    finally:
        client.close()


def _connect() -> docker.DockerClient:
    try:
        client = docker.from_env(timeout=_TIMEOUT_S)
        client.ping()
        client.images.get(IMAGE)
    except ImageNotFound:
        raise Missing(f"the Docker engine has no image {IMAGE}: run `make sandbox-image`") from None
    except DockerException:
        raise Missing("no Docker engine answers") from None
    return client
