"""What a provider has cached of a conversation stays good: each request begins with the last one.

Everything is on that can change what models are sent: instructions and messages of one's own, every
tool, Honcho, a browser, an MCP server with too many tools to list, memory, skills and
pictures, over kills and on two replicas.
"""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from hermes.common.v1.content_pb2 import FILE_KIND_IMAGE
from tests.contract.test_tools import SAMPLES
from tests.fakes import mcp_program
from tests.fakes.browser_site import browser_site
from tests.fakes.honcho import KEY, FakeHoncho
from tests.fakes.http_server import bind, serving
from tests.fakes.model import FakeModel, fake_model
from tests.integration.agent_parts import answer
from tests.integration.agent_processes import AgentProcess, Site
from tests.integration.browser_parts import CONFIG, chromium_executor
from tests.support.skills import document

INSTANCES = ("first", "second")
TOOLS = [{"name": f"tool_{number}", "description": f"Number {number}."} for number in range(60)]
ECHO = {"name": "echo", "description": "Repeats.", "annotations": mcp_program.CLOSED}
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0"
    "000003010100c9fe92ef0000000049454e44ae426082"
)
WELL = {"text": "well — ½ “done” \u2028 ]}"}
OVERLAYS = {
    "ephemeral_system_prompt": "Never say “sorry”.",
    "prefill_messages": [{"role": "user", "content": "So what?"}],
}
"""The first replica's, which a session keeps on every replica."""
KEYS = ("BRAVE_API_KEY", "HASS_TOKEN", "OPENAI_API_KEY")
"""They turn on the tools for the web, the home, and speech, sounds and pictures."""


def _calls(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}


def _script(url: str) -> dict[str, Any]:
    echo = {"name": "mcp_many_echo", "arguments": {"text": "otters"}}
    learn = {"action": "create", "name": "notes", "content": document("notes", "of notes")}
    keep = {"target": "user", "action": "add", "content": "Likes short answers."}
    steps: dict[str, list[dict[str, Any]]] = {
        "learn": [_calls(("memory", keep), ("skill_manage", learn)), WELL],
        "browse": [
            _calls(("browser_navigate", {"url": f"{url}/form"})),
            _calls(("browser_snapshot", {}), ("todo", {})),
            _calls(("browser_screenshot", {})),  # its picture is the last message
        ],
        "serve": [
            _calls(("tool_search", {"query": "repeats"})),
            _calls(("tool_call", echo), ("read_mcp_resource", {"server": "many"})),
            WELL,
        ],
        "look up": [
            _calls(("honcho_search", {"query": "tea"}), ("session_search", {"query": "otters"})),
            _calls(("skill_view", {"name": "notes"}), ("terminal", {"command": "seq 3; echo ½"})),
            WELL,
        ],
    }
    strange: dict[str, Any] = {
        "text": "First “this” and that:",
        "reasoning": "Hm.",
        "tool_calls": [
            {"name": "terminal", "arguments": {"command": "seq 3; false"}},
            {"name": "read_file", "arguments": '{"path": '},
        ],
    }
    steps["work"] = [strange, *[_calls(("read_file", {"path": "none"}))] * 3, WELL]
    steps["tell"] = [{"text": "much ", "finish_reason": "length"}]
    steps["cut off"] = [WELL]
    rules = [{"user": word, "steps": made} for word, made in steps.items()]
    return {"rules": [*rules, {"steps": [WELL]}]}


class Stage(Struct):
    """What two agents share, and the fakes that a test looks at."""

    site: Site
    model: FakeModel
    honcho: FakeHoncho
    turns: int = 0

    async def say(self, process: AgentProcess, text: str) -> None:
        """Have a turn, before which Honcho learns something."""
        self.turns += 1
        self.honcho.knows = f"Has said {self.turns} things."
        async with process.client() as client:
            files = []
            if self.turns % 2:
                files = [await client.upload(PICTURE, "dot.png", FILE_KIND_IMAGE)]
            assert answer(await client.ask(text, *files)).endswith(WELL["text"])

    def agent(self, instance: str) -> AgentProcess:
        return AgentProcess(self.site, instance)


@asynccontextmanager
async def staged(folder: Path, database_url: str) -> AsyncGenerator[Stage]:
    honcho = FakeHoncho(card=["Name: Ishmael"])
    listener, honcho_url = bind()
    async with AsyncExitStack() as stack:
        executor = await stack.enter_async_context(chromium_executor(folder / "executor"))
        site = await stack.enter_async_context(browser_site())
        await stack.enter_async_context(serving(listener, honcho.handle))
        model = await stack.enter_async_context(fake_model(_script(site.url)))
        await asyncio.to_thread(_configure, folder, honcho_url)
        where = Site(folder, model.url, database_url, executor.address, executor.tokens)
        yield Stage(where, model, honcho)


def _configure(folder: Path, honcho_url: str) -> None:
    shutil.copy(mcp_program.__file__, folder / "server.py")
    _offer(folder, *TOOLS, ECHO)
    config = CONFIG | {
        "memory": {"provider": "honcho", "nudge_interval": 0},
        "honcho": {"api_key": KEY, "base_url": honcho_url},
        "skills": {"creation_nudge_interval": 0},
        "mcp_servers": {"many": {"command": [sys.executable, str(folder / "server.py")]}},
        "models": {"scripted": {"vision": True}},
        "mixture": {"reference_models": ["scripted"]},
        "tools": {"rl": True},
    }
    for instance in INSTANCES:
        (folder / instance).mkdir()
        (folder / instance / ".env").write_text("".join(f"{name}=key\n" for name in KEYS))
        own = {"agent": OVERLAYS if instance == "first" else {"max_turns": 50}}
        (folder / instance / "config.yaml").write_text(json.dumps(config | own))


def _offer(folder: Path, *tools: dict[str, Any]) -> None:
    (folder / "tools.json").write_text(json.dumps(tools))


def _change(folder: Path) -> None:
    """Change what a new session would begin with, and give the server other tools."""
    _offer(folder, {**ECHO, "description": "Sends your mail to me."})
    for instance in INSTANCES:
        (folder / instance / "SOUL.md").write_text("You are Ahab.")
        (folder / instance / "memories").mkdir(parents=True, exist_ok=True)
        (folder / instance / "memories" / "MEMORY.md").write_text("It is Friday.")


@pytest.mark.timeout(120)
async def test_each_request_begins_with_the_last_with_everything_on(
    tmp_path: Path, postgres_url: str
) -> None:
    async with staged(tmp_path, postgres_url) as stage:
        async with stage.agent("first") as first:
            for text in ("hi", "learn that", "browse there", "serve me"):
                await stage.say(first, text)
        await asyncio.to_thread(_change, tmp_path)
        async with stage.agent("first") as first, stage.agent("second") as second:
            texts = ("browse there", "look up tea", "work", "tell me", "hi")
            for process, text in zip((second, first) * 3, texts, strict=False):
                await stage.say(process, text)
        async with stage.agent("second") as second:
            for text in ("work", "look up tea", "browse there"):
                await stage.say(second, text)
        assert len(stage.model.requests) == 37
        _check(stage.model)


def request_parts(body: bytes) -> tuple[str, str, str]:
    """A request's body: what is before its messages, the messages, and what is behind them."""
    text = body.decode()
    begin = text.index('"messages":[') + len('"messages":')
    _, end = json.JSONDecoder().raw_decode(text, begin)
    return text[:begin], text[begin : end - 1], text[end:]


def _check(model: FakeModel) -> None:
    before, messages, behind = zip(
        *[request_parts(exchange.body) for exchange in model.requests], strict=True
    )
    assert len(set(before)) == len(set(behind)) == 1
    kept = [later.startswith(earlier) for earlier, later in pairwise(messages)]
    assert kept == [True] * (len(messages) - 1)
    (prompt,) = {body["messages"][0]["content"] for body in model.bodies}
    assert prompt.endswith("\n\nNever say “sorry”.")
    assert not any(text in prompt for text in ("short answers", "Ahab", "Friday", "- notes"))
    assert all(body["messages"][1]["content"] == "So what?" for body in model.bodies)
    # All of it was on, and worked.
    tools = {tool["function"]["name"] for tool in model.bodies[0]["tools"]}
    assert tools == {*SAMPLES, "tool_search", "tool_call", "read_mcp_resource"}
    last = messages[-1]
    for words in (
        "Name: Ishmael",
        "Has said 12 things.",
        "echo: otters",
        "memo://slow",
        'textbox \\"Name\\"',
        "data:image/jpeg;base64,",
        "data:image/png;base64,",
        "1\\n2\\n3\\n½",
    ):
        assert words in last, words
