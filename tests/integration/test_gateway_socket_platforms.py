"""Discord and Mattermost through the gateway with the real agent, against servers on sockets."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway_service.storage.outbox import REPEAT
from tests.fakes.discord import FakeDiscord, fake_discord
from tests.fakes.mattermost import FakeMattermost, fake_mattermost
from tests.fakes.model import FakeModel, answers, fake_model
from tests.integration.gateway_parts import Hermes, hermes
from tests.support.executors import until

ASK_FIRST = "approvals: {mode: manual}"
RUN = {"tool_calls": [{"name": "terminal", "arguments": {"command": "rm -r src"}}]}
PLATFORMS = {"discord": fake_discord, "mattermost": fake_mattermost}
MESSAGES, RESTARTS = 6, 2

Server = FakeDiscord | FakeMattermost


@asynccontextmanager
async def again(
    folder: Path, server: Server, model: FakeModel, yaml: str = ""
) -> AsyncGenerator[Hermes]:
    """One run of a bot whose home and server go on; people 7 and 8 may talk to it."""
    name = "DISCORD" if isinstance(server, FakeDiscord) else "MATTERMOST"
    environ = {
        f"{name}_BOT_TOKEN": server.token,
        f"{name}_{'BASE_URL' if name == 'DISCORD' else 'URL'}": server.url,
        f"{name}_ALLOWED_USERS": "7, 8",
    }
    async with hermes(folder, model.url, yaml, environ) as running:
        yield running


@pytest.fixture(params=list(PLATFORMS))
async def server(request: pytest.FixtureRequest) -> AsyncGenerator[Server]:
    async with PLATFORMS[request.param]() as running:
        yield running


async def test_a_message_is_answered_in_its_place(tmp_path: Path, server: Server) -> None:
    script = answers({"text": "**Hello** there, Ada", "chunk_chars": 4, "chunk_delay_s": 0.3})
    async with fake_model(script) as model, again(tmp_path, server, model) as running:
        await server.say("5", "let me in", "666")
        await server.say("5", "hi")
        await until(lambda: server.texts("5") == ["**Hello** there, Ada"], 30)
        name = "discord" if isinstance(server, FakeDiscord) else "mattermost"
        assert running.metric("hermes_platform_connected", platform=name) == 1
        await until(lambda: server.typed["5"] >= 1)
        if isinstance(server, FakeDiscord):
            [shown] = server.chats["5"].values()
            assert shown.versions[0] == "…"
            assert len(shown.versions) >= 3


async def test_every_message_is_answered_once_over_a_faulty_server(
    tmp_path: Path, server: Server
) -> None:
    faults = server.faults
    faults.drop_before = faults.drop_after = faults.limited = 0.08
    expected = set[str]()
    async with fake_model(answers({"text": "re: {user}"})) as model:
        for run in range(RESTARTS):
            async with again(tmp_path, server, model):
                for number in range(run, MESSAGES, RESTARTS):
                    # A message would interrupt the one before it.
                    await until(lambda: expected <= set(server.texts("5")), 30)
                    await server.say("5", f"{number}")
                    expected.add(f"re: {number}")
        async with again(tmp_path, server, model):
            await until(lambda: expected <= set(server.texts("5")), 30)
    said = Counter(server.texts("5"))
    assert {text: count for text, count in said.items() if count > 1} == {}
    assert not any(text.startswith(REPEAT) for text in said)
