"""What reviews cost, what is told of them, and what counts towards them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_service.records.reviews import review_turn_id
from hermes.agent.v1 import usage_pb2 as pb
from tests.fakes.model import FakeModel, fake_model
from tests.fakes.telegram import fake_telegram
from tests.integration.agent_parts import AgentClient, agent
from tests.integration.test_agent_budgets import SESSION, limit_reached, set_budget, stub_of
from tests.integration.test_gateway_telegram import again

PROMPT = "look back at the conversation above"
NOTHING = {"text": "There is nothing to keep."}
WELL = {"text": "well"}
TODOS = [{"id": "1", "content": "work", "status": "pending"}]
PLAN = {"tool_calls": [{"name": "todo", "arguments": {"todos": TODOS}}]}
SLOW = {"text": "…", "latency_s": 60}
USED = {"prompt_tokens": 99_000, "completion_tokens": 900}
TEA = {"target": "user", "action": "add", "content": "Likes tea."}
REMEMBER = {"tool_calls": [{"name": "memory", "arguments": TEA}]}


def _script(*rules: dict[str, Any], of_review: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    looks_back = {"user": PROMPT, "steps": [*of_review, NOTHING]}
    return {"rules": [looks_back, *rules, {"steps": [WELL]}]}


async def _set(home: Path, **settings: dict[str, Any]) -> None:
    await asyncio.to_thread((home / "config.yaml").write_text, json.dumps(settings))


def _looks(model: FakeModel) -> int:
    return sum(PROMPT in str(body["messages"]) for body in model.bodies)


async def _review_of(client: AgentClient, text: str) -> str:
    """The id of the review that begins with the end of a turn, where one does."""
    turn = await client.start(text)
    await client.watch(turn.turn_id)
    return review_turn_id(turn.turn_id)


async def test_after_a_review_began_the_messages_are_counted_from_nought(tmp_path: Path) -> None:
    await _set(tmp_path, memory={"nudge_interval": 2})
    async with fake_model(_script()) as model, agent(tmp_path, model.url) as client:
        looks: list[int] = []
        for number in range(1, 5):
            found = await _review_of(client, "so")
            if number % 2:
                await asyncio.sleep(1)
            else:
                await client.watch(found)
            looks.append(_looks(model))
    assert looks == [0, 1, 1, 2]


@pytest.mark.parametrize(("limit", "calls"), [(100_000, 0), (1_000_000, 1)])
async def test_a_review_is_held_to_the_budget_of_what_it_looks_at(
    tmp_path: Path, limit: int, calls: int
) -> None:
    await _set(tmp_path, memory={"nudge_interval": 1}, model={"max_tokens": 500})
    script = {"rules": [{"steps": [WELL | {"usage": USED}]}]}
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        await set_budget(client, SESSION, tokens=limit)
        events = await client.watch(await _review_of(client, "hi"))
        left = await stub_of(client).GetBudget(pb.GetBudgetRequest(session_id="session"))
    assert bool(limit_reached(events)) is not bool(calls)
    assert _looks(model) == calls
    assert [one.spent.tokens for one in left.budgets if one.scope_id == "session"] == [
        99_900 * (1 + calls)
    ]


@pytest.mark.parametrize(
    ("telling", "of_review", "told"),
    [
        ("on", (REMEMBER,), ["Looking back, I have noted something about you."]),
        ("verbose", (REMEMBER,), ["Looking back, I have noted: “Likes tea.”."]),
        ("off", (REMEMBER,), []),
        ("verbose", (), []),
    ],
)
async def test_the_person_is_told_what_was_kept_as_it_is_set(
    tmp_path: Path, telling: str, of_review: tuple[dict[str, Any], ...], told: list[str]
) -> None:
    yaml = json.dumps(
        {"memory": {"nudge_interval": 1}, "display": {"memory_notifications": telling}}
    )
    async with (
        fake_telegram() as telegram,
        fake_model(_script(of_review=of_review)) as model,
        again(tmp_path, telegram, model, yaml) as running,
    ):
        await telegram.say(1, "hi")
        ended = "SELECT state FROM turn WHERE kind = 'review'"
        await running.until_rows("agent", ended, [("COMPLETED",)])
        await running.until_rows("agent", "SELECT is_told FROM review", [(1,)])
        await telegram.until(lambda: len(telegram.texts(1)) > len(told))
        await asyncio.sleep(0.5)
        assert telegram.texts(1) == ["well", *told]
        kept = await asyncio.to_thread(lambda: list(tmp_path.rglob("memories/USER.md")))
        assert bool(kept) is bool(of_review)
