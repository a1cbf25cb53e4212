"""A real Home Assistant, with a person and a few entities."""

import asyncio
import os
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct

from tests.support.ports import free_port
from tests.support.requirements import require

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_HASS = _CACHE / "hermes-tests" / "homeassistant" / "bin" / "hass"
START_S = 60.0
_CONFIG = """\
homeassistant: {{name: Test, latitude: 0, longitude: 0, elevation: 0, unit_system: metric}}
http: {{server_host: 127.0.0.1, server_port: {port}}}
api:
websocket_api:
onboarding:
persistent_notification:
input_boolean: {{door: {{name: Front door}}}}
"""


class RealHomeAssistant(Struct):
    """The server, and a token of its owner."""

    http: aiohttp.ClientSession
    url: str
    token: str = ""

    async def post(self, path: str, data: Mapping[str, Any]) -> None:
        """Call the REST API."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.http.post(f"{self.url}{path}", json=data, headers=headers) as answer:
            assert answer.ok, await answer.text()

    async def notifications(self) -> list[Mapping[str, Any]]:
        """What the panel shows."""
        return await self._ask(self.token, "persistent_notification/get")

    async def log_in(self) -> None:
        """Make the owner, and a token that stays."""
        user = {"name": "Ada", "username": "ada", "password": "secretsecret", "language": "en"}
        told = {"client_id": f"{self.url}/"}
        async with self.http.post(f"{self.url}/api/onboarding/users", json=told | user) as answer:
            told |= {"grant_type": "authorization_code", "code": (await answer.json())["auth_code"]}
        async with self.http.post(f"{self.url}/auth/token", data=told) as answer:
            token = (await answer.json())["access_token"]
        named = {"client_name": "hermes", "lifespan": 365}
        self.token = await self._ask(token, "auth/long_lived_access_token", **named)

    async def _ask(self, token: str, kind: str, **fields: Any) -> Any:
        async with self.http.ws_connect(f"{self.url}/api/websocket") as socket:
            await socket.receive_json()
            await socket.send_json({"type": "auth", "access_token": token})
            await socket.receive_json()
            await socket.send_json({"id": 1, "type": kind, **fields})
            return (await socket.receive_json())["result"]


@asynccontextmanager
async def real_homeassistant(folder: Path) -> AsyncGenerator[RealHomeAssistant]:
    """Run it where it is installed; else a visible skip."""
    installed = await asyncio.to_thread(_HASS.exists)
    require("homeassistant", installed, "tests/homeassistant/make-homeassistant installs it")
    port = free_port()
    configuration = _CONFIG.format(port=port)
    await asyncio.to_thread((folder / "configuration.yaml").write_text, configuration)
    argv = (_HASS, "--config", folder, "--skip-pip", "--log-file", folder / "log")
    process = await asyncio.create_subprocess_exec(*argv, stdout=DEVNULL, stderr=DEVNULL)
    try:
        async with aiohttp.ClientSession() as http:
            server = RealHomeAssistant(http, f"http://127.0.0.1:{port}")
            await _until_it_answers(server)
            await server.log_in()
            yield server
    finally:
        process.terminate()
        await process.wait()


async def _until_it_answers(server: RealHomeAssistant) -> None:
    async with asyncio.timeout(START_S):
        is_there = False
        while not is_there:
            await asyncio.sleep(0.2)
            is_there = await _answers(server)


async def _answers(server: RealHomeAssistant) -> bool:
    try:
        async with server.http.get(f"{server.url}/api/onboarding") as answer:
            return answer.ok
    except aiohttp.ClientError:
        return False
