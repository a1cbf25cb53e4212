"""The first request of a review begins with the last one of what it looks at, all of it.

Also where a conversation is sent with more than its messages, has been compressed, or has gone on
with another model.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from agent_service.prompt.compression.summary import LABEL
from agent_service.records.reviews import review_turn_id
from tests.fakes.model import FakeModel, answers, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer, kinds
from tests.integration.test_agent_fallback import HI, chain_to
from tests.integration.test_agent_prefix_of_all import request_parts

PROMPT = "look back at the conversation above"
REVIEW = {"user": PROMPT, "steps": [{"text": "There is nothing to keep."}]}
NOTES = {"user": "The conversation:", "steps": [{"text": "Goal: tea. Open: sugar."}]}
LONG = "word " * 2400
OVERLAYS = """
agent:
  ephemeral_system_prompt: Never say “sorry”.
  prefill_messages: [{role: user, content: "So what?"}]
"""


def _script(said: dict[str, Any]) -> dict[str, Any]:
    return {"rules": [NOTES, REVIEW, {"steps": [said]}]}


async def _set(home: Path, nudge_turns: int, more: str) -> None:
    text = f"memory: {{nudge_interval: {nudge_turns}}}\n{more}"
    await asyncio.to_thread((home / "config.yaml").write_text, text)


async def _reviewed(client: AgentClient, text: str) -> None:
    """Say what a review begins after, and wait for its end."""
    turn_id = (await client.start(text)).turn_id
    await client.watch(turn_id)
    ended = await client.watch(review_turn_id(turn_id))
    assert answer(ended) == "There is nothing to keep."


def _check(model: FakeModel) -> list[dict[str, Any]]:
    """The last request is of a review, and begins with the one before; its messages."""
    parent, own = (request_parts(exchange.body) for exchange in model.requests[-2:])
    assert (own[0], own[2]) == (parent[0], parent[2])
    assert own[1].startswith(parent[1])
    messages = model.bodies[-1]["messages"]
    assert PROMPT in messages[-1]["content"]
    assert PROMPT not in json.dumps(model.bodies[-2])
    return messages


async def test_a_review_is_sent_with_what_its_session_is_sent_with(tmp_path: Path) -> None:
    await _set(tmp_path, 1, OVERLAYS)
    async with fake_model(_script({"text": "well"})) as model, agent(tmp_path, model.url) as client:
        await _reviewed(client, "hi")
    sent = json.dumps(_check(model), ensure_ascii=False)
    assert "Never say “sorry”." in sent
    assert "So what?" in sent


async def test_a_review_looks_at_a_conversation_as_it_was_compressed(tmp_path: Path) -> None:
    limits = "models: {scripted: {window: 26000}}\nmodel: {max_tokens: 1000}\n"
    await _set(tmp_path, 8, limits)
    found: list[str] = []
    async with fake_model(_script({"text": "yes"})) as model, agent(tmp_path, model.url) as client:
        for number in range(7):
            found += kinds(await client.ask(f"part {number}: {LONG}"))
        assert "compressed" in found
        await _reviewed(client, "and now?")
    labelled = [m for m in _check(model) if str(m["content"]).startswith(LABEL)]
    assert len(labelled) == 1


async def test_a_review_asks_the_model_that_has_taken_over(tmp_path: Path) -> None:
    busy = answers({"status": 429, "headers": {"retry-after": "0"}}, HI)
    async with fake_model(busy) as first, fake_model(_script(HI)) as other:
        await chain_to(tmp_path, other, more="memory: {nudge_interval: 1}\n")
        async with agent(tmp_path, first.url) as client:
            await _reviewed(client, "hi")
    _check(other)
    assert [body["model"] for body in other.bodies] == ["other-1", "other-1"]
    assert len(first.requests) == 1
