"""The gateway's HTTP port with the real agent behind it."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from openai import AsyncOpenAI

from tests.fakes.model import FakeModel, fake_model
from tests.integration.gateway_parts import Hermes, hermes
from tests.support.ports import free_port

KEY = "sk-of-the-tests-0123456789"


@dataclass(frozen=True)
class Api:
    """A running gateway with an HTTP port, and its clients."""

    running: Hermes
    model: FakeModel
    port: int
    client: AsyncOpenAI
    http: aiohttp.ClientSession
    """With the key, at the root of the port."""

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        """The status and the document that a request is answered with."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["Content-Type"] = "application/json"
        data = io.BytesIO(json.dumps(body).encode())
        async with self.http.post(path, data=data, headers=named) as response:
            return response.status, await response.json()

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.http.get(path) as response:
            return response.status, await response.json()

    def sent(self) -> list[Any]:
        """The messages of the last question to the model."""
        return self.model.bodies[-1]["messages"]


@asynccontextmanager
async def api(
    folder: Path, script: Mapping[str, Any], yaml: str = "", **environ: str
) -> AsyncGenerator[Api]:
    """Run the agent and a gateway that serves HTTP."""
    port = free_port()
    variables = {"API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port), **environ}
    url = f"http://127.0.0.1:{port}"
    bearer = {"Authorization": f"Bearer {KEY}"}
    async with (
        fake_model(script) as model,
        hermes(folder, model.url, yaml, variables) as running,
        aiohttp.ClientSession(url, headers=bearer) as http,
        # In a thread, as the SDK reads files when it is first used.
        await asyncio.to_thread(_client, url) as client,
    ):
        await until_served(port)
        yield Api(running, model, port, client, http)


def _client(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)


async def until(condition: Callable[[], bool]) -> None:
    """Return once a condition is true."""
    async with asyncio.timeout(10):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


async def until_served(port: int) -> None:
    """Return once the port is open."""
    async with asyncio.timeout(10):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
