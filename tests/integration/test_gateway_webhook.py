"""Webhooks through the HTTP port to the real agent, answered in a Telegram chat."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from hermes.gateway.v1.platform_pb2 import PLATFORM_STATE_CONNECTING
from tests.fakes.model import FakeModel, fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_parts import Hermes, hermes
from tests.integration.http_parts import until_served
from tests.integration.test_gateway_attachments import PNG, Files
from tests.integration.test_gateway_conversation import ECHO
from tests.integration.test_gateway_directory import Caller
from tests.support.ports import free_port

SECRET = "0123456789abcdef0123"
YAML = """
approvals: {mode: manual}
platforms:
  webhook:
    extra:
      secret: 0123456789abcdef0123
      routes:
        alerts: {prompt: "Explain the alert {title}.", deliver: "telegram:1"}
        kept: {}
        lost: {deliver: "slack:C1"}
        home: {deliver: home}
"""
RUN = {"tool_calls": [{"name": "terminal", "arguments": {"command": "rm -r src"}}]}


@dataclass(frozen=True)
class Scene:
    """A gateway with a bot, a model, and the address of its webhooks."""

    running: Hermes
    telegram: FakeTelegram
    model: FakeModel
    url: str

    async def post(
        self, payload: dict[str, Any], route: str = "alerts", secret: str = SECRET
    ) -> int:
        """Send a signed event; return the status."""
        body = json.dumps(payload).encode()
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"X-Webhook-Signature": signature, "Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{self.url}/{route}", data=body, headers=headers) as answer,
        ):
            return answer.status


@asynccontextmanager
async def _scene(folder: Path, *steps: dict[str, Any]) -> AsyncGenerator[Scene]:
    port = free_port()
    async with fake_telegram() as telegram, fake_model({"rules": [{"steps": [*steps]}]}) as model:
        environ = {
            "TELEGRAM_BOT_TOKEN": TOKEN,
            "TELEGRAM_BASE_URL": telegram.url,
            "TELEGRAM_ALLOWED_USERS": "7",
            "TELEGRAM_HOME_CHANNEL": "2",
            "API_SERVER_PORT": str(port),
        }
        async with hermes(folder, model.url, YAML, environ) as running:
            await until_served(port)
            url = f"http://127.0.0.1:{port}/webhooks/webhook"
            yield Scene(running, telegram, model, url)


async def test_an_event_is_answered_in_a_chat_once(tmp_path: Path) -> None:
    async with _scene(tmp_path, {"text": "The disk is **full**."}) as scene:
        payload = {"title": "Disk at 98 %", "id": 5}
        assert [await scene.post(payload) for _ in range(2)] == [202, 202]
        assert await scene.post(payload, secret="guessed") == 401
        await scene.telegram.until(lambda: scene.telegram.texts(1) == ["The disk is full."])
        [body] = scene.model.bodies
        said = body["messages"][-1]["content"]
        assert "Another program has sent an event" in body["messages"][0]["content"]
        assert said.startswith("Explain the alert [title].")
        assert "title: Disk at 98 %" in said
        assert '"the webhook alerts" wrote' in said
        refused = {"platform": "webhook", "outcome": "refused"}
        assert scene.running.metric("hermes_webhooks_total", **refused) == 1
        labelled = "SELECT count(*) FROM session_state WHERE name = 'taint'"
        assert await scene.running.rows("agent", labelled) == [(1,)]


async def test_an_approval_is_decided_in_the_chat_that_gets_the_answer(tmp_path: Path) -> None:
    async with _scene(tmp_path, RUN, {"text": "Left alone."}) as scene:
        assert await scene.post({"title": "x"}) == 202
        telegram = scene.telegram
        await telegram.until(lambda: any("rm -r src" in text for text in telegram.texts(1)))
        asked = next(each for each in telegram.chats[1].values() if each.buttons)
        deny = next(data for data in asked.buttons if data.endswith(":deny"))
        await telegram.press(1, asked.id, deny)
        await telegram.until(lambda: "Left alone." in telegram.texts(1))
        assert len(scene.model.bodies) == 2


async def test_an_answer_without_a_target_is_kept_in_its_session(tmp_path: Path) -> None:
    async with _scene(tmp_path, {"text": "Noted."}) as scene:
        assert await scene.post({"event": "ping"}, route="kept") == 200
        assert await scene.post({"event": "push"}, route="kept") == 202
        assert await scene.post({"event": "push"}, route="lost") == 202
        sent = "SELECT platform, chat_id, state FROM outbox ORDER BY chat_id"
        kept = [("webhook", name, "SENT") for name in ("kept", "lost")]
        await scene.running.until_rows("gateway", sent, kept)
        assert scene.telegram.texts(1) == []
        assert await scene.running.rows("gateway", "SELECT * FROM channel") == []
        assert "take no messages" in await Caller(scene.running).refusal("webhook:kept")


async def test_nobody_is_waited_for_if_an_answer_is_kept(tmp_path: Path) -> None:
    ask = {"tool_calls": [{"name": "clarify", "arguments": {"question": "Which?"}}]}
    async with _scene(tmp_path, RUN, ask, {"text": "Left alone."}) as scene:
        assert await scene.post({"event": "push"}, route="kept") == 202
        await scene.running.until_rows("gateway", "SELECT state FROM inbox", [("CLOSED",)])
        refused, told = (body["messages"][-1]["content"] for body in scene.model.bodies[1:])
        assert "nobody" in refused.lower()
        assert "Nobody is there to answer" in told


async def test_an_answer_goes_to_the_home_channel(tmp_path: Path) -> None:
    async with _scene(tmp_path, {"text": "Noted."}) as scene:
        assert await scene.post({"event": "push"}, route="home") == 202
        await scene.telegram.until(lambda: scene.telegram.texts(2) == ["Noted."])
        assert scene.telegram.texts(1) == []


async def test_the_files_of_an_answer_go_where_it_goes(tmp_path: Path) -> None:
    async with _scene(tmp_path, {"text": "The plot.", "latency_s": 2}) as scene:
        assert await scene.post({"title": "x"}) == 202
        turns = "SELECT turn_id FROM inbox WHERE turn_id IS NOT NULL"
        await scene.model.until(lambda: len(scene.model.requests) == 1)
        [(turn,)] = await scene.running.rows("gateway", turns)
        files, key = Files.of(scene.running), f"{turn}:files"
        await files.upload(key, PNG)
        await files.deliver(key, "", [("plot.png", PNG)], ("webhook", "alerts"))
        await scene.telegram.until(lambda: len(scene.telegram.texts(1)) == 2)
        text, picture = scene.telegram.chats[1].values()
        assert text.text == "The plot."
        assert picture.file is not None
        assert picture.file.name == "plot.png"


async def test_a_platform_whose_port_is_taken_is_not_shown_as_connected(tmp_path: Path) -> None:
    port = free_port()
    other = await asyncio.start_server(lambda _, __: None, "127.0.0.1", port)
    async with other, fake_model(ECHO) as model:
        given = {"API_SERVER_PORT": str(port)}
        async with hermes(tmp_path, model.url, YAML, given) as running:
            caller = Caller(running)
            async with asyncio.timeout(20):
                while "in use" not in (account := await caller.account()).problem:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert (account.platform, account.state) == ("webhook", PLATFORM_STATE_CONNECTING)
