"""What a provider has cached of a conversation stays good: each request begins with the last one.

Ten turns with everything that changes what a session begins with, on several replicas in turn.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

from tests.fakes.model import FakeModel, call
from tests.integration.agent_parts import AgentClient, answer
from tests.integration.test_agent_takeover import Stage, staged
from tests.support.skills import document

TURNS = 10
WELL = {"text": "well — ½ “done” \u2028 ]}"}


NOTES = document("notes", "how notes are kept")
SCRIPT = {
    "rules": [
        {"user": "cut off", "steps": [WELL]},
        {
            "user": "remember",
            "steps": [
                call("memory", target="memory", action="add", content="The build needs make 4."),
                call("memory", target="user", action="add", content="Likes short answers."),
                WELL,
            ],
        },
        {
            "user": "learn",
            "steps": [
                call("skill_manage", action="create", name="notes", content=NOTES),
                call("skill_manage", action="patch", name="notes", old_string="Do", new_string="D"),
                call("skill_view", name="notes"),
                WELL,
            ],
        },
        {
            "user": "work",
            "steps": [
                {
                    "text": "First “this” and that:",
                    "reasoning": "Hm.",
                    "tool_calls": [
                        {"name": "terminal", "arguments": {"command": "seq 3; echo ½ >a; false"}},
                        {"name": "read_file", "arguments": {"path": "a"}},
                        {"name": "read_file", "arguments": '{"path": '},
                    ],
                },
                *[call("read_file", path="none")] * 3,
                WELL,
            ],
        },
        {"user": "tell", "steps": [{"text": "much ", "finish_reason": "length"}]},
        {"steps": [WELL]},
    ]
}


OVERLAYS = """
agent:
  ephemeral_system_prompt: Never say “sorry”.
  prefill_messages: [{role: user, content: "So what?"}]
"""


NO_REVIEWS = "memory: {nudge_interval: 0}\nskills: {creation_nudge_interval: 0}\n"
"""They are tried elsewhere."""


class _Conversation:
    """Turns of one session, on whichever replica runs."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.turns = 0

    async def on(self, instance: str, *texts: str) -> None:
        """Say things to a replica that is started for them, and killed afterwards."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._stage.agent(instance))
            for text in texts:
                await self._say(instance, text)

    async def by_turns(self, instances: Sequence[str], *texts: str) -> None:
        """Say things to replicas that run side by side, to one after the other."""
        async with AsyncExitStack() as stack:
            for instance in instances:
                await stack.enter_async_context(self._stage.agent(instance))
            for number, text in enumerate(texts):
                await self._say(instances[number % len(instances)], text)

    async def _say(self, instance: str, text: str) -> None:
        async with self._stage.agent(instance).client() as client:
            assert await _answered(client, text)
        self.turns += 1


async def _answered(client: AgentClient, text: str) -> bool:
    return answer(await client.ask(text)).endswith(WELL["text"])


def request_parts(body: bytes) -> tuple[str, str, str]:
    """A request's body: what is before its messages, the messages, and what is behind them."""
    text = body.decode()
    begin = text.index('"messages":[') + len('"messages":')
    _, end = json.JSONDecoder().raw_decode(text, begin)
    return text[:begin], text[begin : end - 1], text[end:]


def _change_home(folder: Path) -> None:
    """Change by hand what a new session would begin with."""
    for instance in ("first", "second"):
        (folder / instance / "memories").mkdir(parents=True, exist_ok=True)
        (folder / instance / "memories" / "USER.md").write_text("Is called Ishmael.")
        (folder / instance / "SOUL.md").write_text("You are Ahab.")


def _give_overlays(folder: Path) -> None:
    """Have sessions be sent with instructions and messages of their own."""
    for instance, text in (("first", OVERLAYS), ("second", "agent: {max_turns: 50}\n")):
        (folder / instance).mkdir(parents=True, exist_ok=True)
        (folder / instance / "config.yaml").write_text(text + NO_REVIEWS)


def _check(model: FakeModel) -> None:
    before, messages, behind = zip(
        *[request_parts(exchange.body) for exchange in model.requests], strict=True
    )
    assert len(set(before)) == len(set(behind)) == 1
    (prompt,) = {body["messages"][0]["content"] for body in model.bodies}
    assert prompt.endswith("\n\nNever say “sorry”.")
    assert all(body["messages"][1]["content"] == "So what?" for body in model.bodies)
    assert not any(text in prompt for text in ("make 4", "short answers", "Ahab", "- notes"))
    kept = [later.startswith(earlier) for earlier, later in pairwise(messages)]
    assert kept == [True] * (len(messages) - 1)


async def test_each_request_of_ten_turns_begins_with_the_last(
    tmp_path: Path, postgres_url: str
) -> None:
    async with staged(tmp_path, postgres_url, SCRIPT) as stage:
        await asyncio.to_thread(_give_overlays, tmp_path)
        talk = _Conversation(stage)
        await talk.on("first", "hi", "remember this", "learn that")
        await asyncio.to_thread(_change_home, tmp_path)
        await talk.by_turns(["first", "second"], "work", "work", "tell me", "remember this")
        await talk.on("second", "learn that", "work", "hi")
        assert talk.turns == TURNS
        assert len(stage.model.requests) == 33
        _check(stage.model)
