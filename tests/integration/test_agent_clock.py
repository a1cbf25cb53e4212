"""A machine's clock that goes back while people talk: nothing is lost, and nothing out of order."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from agent_service.app import build
from services.addresses import UnixAddress
from services.auth import Identity, new_tokens
from services.channels import Channels
from services.clock import SystemClock
from services.config import load_settings
from services.lifecycle import Workers
from services.metrics import Meter
from services.server import Listen, Server
from tests.fakes.model import fake_model
from tests.integration.agent_parts import AgentClient, answer

DAY = timedelta(days=1)


class Stepped(SystemClock):
    """The machine's clock, set to another time now and then."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        """The wall time as it was set."""
        return super().now() + self.ahead


@asynccontextmanager
async def agent_at(
    home: Path, clock: Stepped, model_url: str, database_url: str
) -> AsyncGenerator[AgentClient]:
    """An agent in this process that has its time from a clock."""
    environ = {
        "HOME": "/nonexistent",
        "HERMES_HOME": str(home),
        "HERMES_BASE_URL": model_url,
        "HERMES_MODEL": "scripted",
        "HERMES_API_KEY": "test-key",
        "HERMES_DATABASE_URL": database_url,
    }
    settings = load_settings({}, environ)
    await asyncio.to_thread(settings.home.create)
    tokens, address = new_tokens(), UnixAddress(settings.home.socket)
    async with (
        Channels(Identity.AGENT, {}, token=tokens[Identity.AGENT]) as own,
        Server(
            [service := build(settings, own, Meter(CollectorRegistry()), clock)],
            Listen((address,), tokens=tokens),
        ) as server,
        service,
        Workers() as work,
        Channels(Identity.GATEWAY, {"agent": address}, token=tokens[Identity.GATEWAY]) as channels,
    ):
        await server.start()
        work.start("agent", service.run())
        yield AgentClient(channels)
        await service.drain()


def _remember(text: str) -> list[dict[str, Any]]:
    arguments = {"target": "user", "action": "add", "content": text}
    return [{"tool_calls": [{"name": "memory", "arguments": arguments}]}, {"text": "well"}]


SCRIPT = {
    "rules": [
        {"user": "first", "steps": _remember("Likes cats.")},
        {"user": "second", "steps": _remember("Likes dogs.")},
        {"user": "slow", "steps": [{"text": "well", "latency_s": 1.0}]},
        {"steps": [{"text": "well"}]},
    ]
}


async def test_a_clock_that_goes_back_changes_no_order(tmp_path: Path, database_url: str) -> None:
    clock = Stepped()
    async with (
        fake_model(SCRIPT) as model,
        agent_at(tmp_path, clock, model.url, database_url) as client,
    ):
        assert answer(await client.ask("first")) == "well"
        clock.ahead -= DAY
        assert answer(await client.ask("second")) == "well"
        turns: list[str] = []
        for text in ("slow", "a", "b", "c"):
            turns.append((await client.start(text)).turn_id)
            clock.ahead -= DAY
        assert [answer(await client.watch(turn_id)) for turn_id in turns] == ["well"] * 4
        bodies = [body["messages"] for body in model.bodies]
    said = [message["content"] for message in bodies[-1] if message["role"] == "user"]
    assert said == ["first", "second", "slow", "a", "b", "c"]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(bodies))
    memory = await asyncio.to_thread((tmp_path / "memories" / "USER.md").read_text)
    assert memory == "Likes cats.\n§\nLikes dogs."
