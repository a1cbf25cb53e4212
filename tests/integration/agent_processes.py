"""Agents in processes of their own, which can be killed: each serves as standard input says."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import httpx
from msgspec import Struct
from prometheus_client import CollectorRegistry

from agent_service.app import build
from services.config.settings import load_settings
from services.rpc.addresses import Address, UnixAddress
from services.rpc.auth import Identity, Tokens
from services.rpc.channels import Channels
from services.runtime.metrics_server import serve_metrics
from services.runtime.server import ListenOptions, serve
from services.telemetry.metrics import Exposition, Meter
from tests.integration.agent_parts import AgentClient
from tests.support.forks import Forked, Program


class Site(Struct, frozen=True):
    """What the agents of a test share."""

    folder: Path
    model_url: str
    database_url: str
    executor: Address
    tokens: Tokens
    lease_s: float = 3
    gateway: str = ""

    def environ(self, instance: str) -> dict[str, str]:
        return {
            "HOME": "/nonexistent",
            "HERMES_HOME": str(self.folder / instance),
            "HERMES_INSTANCE": instance,
            "HERMES_BASE_URL": self.model_url,
            "HERMES_MODEL": "scripted",
            "HERMES_SKILLS_BUNDLED": "false",
            "HERMES_API_KEY": "test-key",
            "HERMES_DATABASE_URL": self.database_url,
            "HERMES_AGENT_LEASE_S": str(self.lease_s),
            "HERMES_AGENT_EXECUTOR_AWAY_S": "1",
            "HERMES_AGENT_ENDPOINT": f"unix:{self.socket(instance)}",
        }

    def socket(self, instance: str) -> Path:
        return self.folder / f"{instance}.sock"


class AgentProcess:
    """An agent that runs while the context is open, and is killed at its end."""

    def __init__(self, site: Site, instance: str) -> None:
        self._site = site
        self._instance = instance
        self._log = site.folder / f"{instance}.log"
        self._socket = site.socket(instance)
        self._process: Forked | None = None
        self._metrics_url = ""

    async def __aenter__(self) -> Self:
        said = {
            "environ": self._site.environ(self._instance),
            "socket": str(self._socket),
            "executor": str(self._site.executor),
            "gateway": self._site.gateway,
            "tokens": dict(self._site.tokens),
        }
        program = Program(__name__, said=json.dumps(said))
        process = self._process = await Forked.start(program, self._log)
        said_ready = await process.stdout.readline()
        assert said_ready.startswith(b"ready "), await self.log()
        self._metrics_url = said_ready.decode().split()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ended(self) -> None:
        assert self._process is not None
        await self._process.wait()

    async def log(self) -> str:
        return await asyncio.to_thread(self._log.read_text)

    async def metric(self, name: str) -> float:
        async with httpx.AsyncClient(trust_env=False) as client:
            text = (await client.get(self._metrics_url)).text
        (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(line.split()[1])

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[AgentClient]:
        token = self._site.tokens[Identity.GATEWAY]
        places = {"agent": UnixAddress(self._socket)}
        async with Channels(Identity.GATEWAY, places, token=token) as channels:
            yield AgentClient(channels)


async def _main(said: dict[str, Any]) -> None:
    settings = load_settings({}, said["environ"])
    settings.home.create()
    tokens = {Identity(name): token for name, token in said["tokens"].items()}
    places = {name: said[name] for name in ("executor", "gateway") if said[name]}
    async with Channels(Identity.AGENT, places, token=tokens[Identity.AGENT]) as channels:
        registry = CollectorRegistry()
        service = build(settings, channels, Meter(registry))
        listen = ListenOptions((UnixAddress(Path(said["socket"])),), tokens=tokens)
        async with serve_metrics(Exposition(registry), "127.0.0.1", 0) as metrics:

            async def say_ready(_addresses: tuple[Address, ...]) -> None:
                print(f"ready http://{metrics}/metrics", flush=True)

            await serve([service], listen, ready=say_ready)


def main() -> None:
    asyncio.run(_main(json.loads(sys.stdin.read())))
