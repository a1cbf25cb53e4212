"""Hooks around chats: what they hear of a conversation, and commands that they deny."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.fakes.model import fake_model
from tests.fakes.telegram import FakeTelegram, fake_telegram
from tests.integration.gateway_parts import Hermes
from tests.integration.http_parts import api
from tests.integration.test_gateway_resets import IDLE, age
from tests.integration.test_gateway_telegram import again
from tests.unit.gateway.test_hooks import write_hook

WRITES = """
import json
def handle(event_type, context):
    with open("seen", "a") as file:
        print(json.dumps([event_type, context]), file=file)
"""
DENIES = """
async def handle(event_type, context):
    if context["args"] == "3":
        message = f"{context['command']} is not for {context['user_id']}."
        return {"decision": "deny", "message": message}
"""
TOOL: dict[str, Any] = {"tool_calls": [{"name": "todo", "arguments": {"todos": []}}]}


class Seen:
    """What the hook `all` has heard."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return [(event, context) for event, context in map(json.loads, lines)]

    async def until(self, event: str, condition: Callable[[dict[str, Any]], bool]) -> None:
        async with asyncio.timeout(20):
            while True:
                events = await asyncio.to_thread(self.events)
                if any(name == event and condition(context) for name, context in events):
                    return
                await asyncio.sleep(0.02)


@asynccontextmanager
async def _bot(
    folder: Path, *steps: dict[str, Any], yaml: str = ""
) -> AsyncGenerator[tuple[FakeTelegram, Hermes, Seen]]:
    events = "['gateway:*', 'session:*', 'agent:*']"
    hook = await asyncio.to_thread(write_hook, folder, "all", events, WRITES)
    await asyncio.to_thread(write_hook, folder, "guard", "['command:*']", DENIES)
    async with (
        fake_telegram() as telegram,
        fake_model({"rules": [{"steps": [*steps]}]}) as model,
        again(folder, telegram, model, yaml) as running,
    ):
        yield telegram, running, Seen(hook / "seen")


async def test_hooks_hear_of_a_conversation(tmp_path: Path) -> None:
    async with _bot(tmp_path, TOOL, {"text": "Hello!"}) as (telegram, _, seen):
        await telegram.say(1, "hi")
        await telegram.until(lambda: telegram.texts(1) == ["Hello!"])
        await seen.until("agent:end", lambda context: context["response"] == "Hello!")
        await telegram.say(1, "/new")
        await seen.until("session:reset", lambda context: context["reason"] == "command")
    events = await asyncio.to_thread(seen.events)
    assert [event for event, _ in events] == [
        *("gateway:startup", "session:start", "agent:start", "agent:step", "agent:step"),
        *("agent:end", "session:end", "session:reset", "session:start"),
    ]
    said = [context for _, context in events]
    assert said[0] == {"platforms": ["telegram"]}
    about = {"platform": "telegram", "chat_id": "1", "user_id": "7", "chat_type": "dm"}
    assert all(about.items() <= context.items() for context in said[1:])
    assert [context["message"] for context in said[2:6]] == ["hi"] * 4
    assert [context["tool_names"] for context in said[3:5]] == [[], ["todo"]]
    assert len({context["session_id"] for context in said[1:7]}) == 1
    assert said[7]["previous_session_id"] == said[6]["session_id"] != said[7]["session_id"]


async def test_a_hook_denies_a_command(tmp_path: Path) -> None:
    async with _bot(tmp_path, {"text": "Hello!"}) as (telegram, _, _):
        await telegram.say(1, "/undo 3")
        await telegram.until(lambda: telegram.texts(1) == ["undo is not for 7."])
        await telegram.say(1, "/undo")
        await telegram.until(lambda: telegram.texts(1)[1:] == ["There is nothing to take back."])
        await telegram.say(1, "/deploy 3")
        await telegram.until(lambda: telegram.texts(1)[2:] == ["deploy is not for 7."])
        assert telegram.calls["editMessageText"] == 0, "no turn was begun"


async def test_a_session_that_ends_by_itself_is_told_of(tmp_path: Path) -> None:
    async with _bot(tmp_path, {"text": "Hello!"}, yaml=IDLE) as (telegram, running, seen):
        await telegram.say(1, "hi")
        await seen.until("agent:end", lambda context: context["response"] == "Hello!")
        await running.until_rows("gateway", "SELECT state FROM inbox", [("CLOSED",)])
        await asyncio.to_thread(age, running, 61)
        await telegram.say(1, "hi again")
        await seen.until("session:start", lambda context: context.get("reason") == "idle")
    events = await asyncio.to_thread(seen.events)
    (_, ended), (_, reset), (_, started) = [
        each for each in events if each[0].startswith("session:")
    ][1:]
    assert ended["reason"] == reset["reason"] == "idle"
    assert ended["session_key"] == "agent:main:telegram:dm:1"
    assert ended["session_id"] == reset["previous_session_id"]
    assert started["session_id"] == reset["session_id"]


async def test_requests_to_the_http_api_are_told_of(tmp_path: Path) -> None:
    events = "['session:*', 'agent:*']"
    hook = await asyncio.to_thread(write_hook, tmp_path, "all", events, WRITES)
    seen, script = Seen(hook / "seen"), {"rules": [{"steps": [TOOL, {"text": "Hello!"}]}]}
    async with api(tmp_path, script) as running:
        body = {"messages": [{"role": "user", "content": "hi"}]}
        for _ in range(2):
            await running.post("/v1/chat/completions", body, Idempotency_Key="k")
        await seen.until("agent:end", lambda context: context["response"] == "Hello!")
        await running.post("/v1/runs", {"input": "again", "session_id": "mine"})
        await seen.until("agent:end", lambda context: context["message"] == "again")
    told = await asyncio.to_thread(seen.events)
    steps = ["agent:start", "agent:step", "agent:step", "agent:end"]
    assert [event for event, _ in told][:5] == ["session:start", *steps]
    assert [event for event, _ in told].count("agent:start") == 2
    assert {context["platform"] for _, context in told} == {"api_server"}
    assert told[3][1]["tool_names"] == ["todo"]
