"""What is denied to a turn is denied to whoever goes on with it, and to what comes of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

from agent_service.records.reviews import review_turn_id
from hermes.agent.v1 import turn_pb2
from services.ids import new_id
from tests.fakes.model import FakeModel, fake_model
from tests.integration.agent_parts import AgentClient, agent
from tests.support.skills import put_skill

NO_MEMORY = ("memory show", "cron add")
KEEP = {"target": "memory", "action": "add", "content": "Likes tea"}
REMEMBER: dict[str, Any] = {"tool_calls": [{"name": "memory", "arguments": KEEP}]}
PLAN: dict[str, Any] = {"tool_calls": [{"name": "todo", "arguments": {}}], "latency_s": 1.0}
TOLD = {"text": "{tool_result}"}
DENIED = "may not use /memory show"
KEPT = "Remembered"


def _script(*steps: dict[str, Any]) -> dict[str, Any]:
    other = {"steps": [REMEMBER, TOLD]}
    return {"rules": [*([{"user": "work", "steps": list(steps)}] if steps else ()), other]}


async def _start(
    client: AgentClient, text: str, denied: tuple[str, ...] = NO_MEMORY, **fields: Any
) -> str:
    request = turn_pb2.StartTurnRequest(
        turn_id=new_id("trn"), session_id="session", denied_commands=denied, **fields
    )
    request.parts.add(text=text)
    request.origin.platform = "cli"
    return (await client.turns.StartTurn(request)).turn.turn_id


async def _answer(client: AgentClient, turn_id: str) -> str:
    return (await client.watch(turn_id))[-1].turn_finished.completed.answer


def _asked(model: FakeModel, count: int) -> Any:
    return model.until(lambda: len(model.requests) == count)


async def test_words_that_join_take_their_right_along_also_over_a_restart(tmp_path: Path) -> None:
    hangs = {"text": "…", "hang_after": 0}
    async with fake_model(_script(PLAN, hangs)) as model, agent(tmp_path, model.url) as client:
        work = await _start(client, "work", ())
        await _asked(model, 1)
        await _start(client, "and this", busy_mode=turn_pb2.BUSY_MODE_STEER)
        await _asked(model, 2)
    async with (
        fake_model({"rules": [{"steps": [PLAN, REMEMBER, TOLD]}]}) as model,
        agent(tmp_path, model.url) as client,
    ):
        assert DENIED in await _answer(client, work)
        assert KEPT in await _answer(client, await _start(client, "go", ()))


async def test_what_a_turn_hands_over_or_has_looked_back_at_is_held_to_the_same(
    tmp_path: Path,
) -> None:
    settings = json.dumps({"memory": {"nudge_interval": 1}})
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, settings)
    await asyncio.to_thread(put_skill, tmp_path / "skills", "plans")
    away = {"name": "skill_manage", "arguments": {"action": "archive", "name": "plans"}}
    hands = {"name": "delegate_task", "arguments": {"goal": "tidy up"}}
    script = {
        "rules": [
            {"user": "look back at the conversation", "steps": [REMEMBER, {"text": "so"}]},
            {"user": "tidy up", "steps": [{"tool_calls": [away]}, TOLD]},
            {"user": "work", "steps": [{"tool_calls": [hands]}, TOLD]},
        ]
    }
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        work = await _start(client, "work", ("skills list", "memory show"))
        assert "may not use /skills list" in await _answer(client, work)
        await client.watch(review_turn_id(work))
    [looked] = [body for body in model.bodies if body["messages"][-2:-1] and _looks(body)]
    assert DENIED in looked["messages"][-1]["content"]


def _looks(body: dict[str, Any]) -> bool:
    """Whether a request is the second one of a review."""
    said = [message for message in body["messages"] if message["role"] == "user"]
    return "look back" in str(said[-1]) and body["messages"][-1]["role"] == "tool"
