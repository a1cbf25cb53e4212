"""How much the results of a turn may take, over all its messages and whoever drives it."""

import asyncio
from pathlib import Path
from typing import Any

from agent_service.tools.oversize import LATE_CHARS, TURN_CHARS
from tests.fakes.model import fake_model
from tests.integration.agent_parts import agent, answer
from tests.skills import document, put_skill

LONG = 90_000


def _view(name: str, latency_s: float = 0.0) -> dict[str, Any]:
    call = {"name": "skill_view", "arguments": {"name": name}}
    return {"tool_calls": [call], "latency_s": latency_s}


async def test_what_earlier_messages_brought_counts_also_after_a_restart(
    tmp_path: Path, database_url: str
) -> None:
    library = tmp_path / "skills"
    for name, chars in {"first": LONG, "second": LONG, "third": LONG, "late": 2000}.items():
        text = document(name, body="x " * (chars // 2))
        await asyncio.to_thread(put_skill, library, name, text)
    steps = [_view("first"), _view("second"), _view("third", 1.0), _view("late"), {"text": "done"}]
    script = {
        "rules": [{"user": "look", "steps": steps}, {"steps": [_view("first"), {"text": "x"}]}]
    }
    async with fake_model(script) as model:
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            started = await client.start("look")
            await model.until(lambda: len(model.requests) == 3)
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            assert answer(await client.watch(started.turn_id)) == "done"
            results = [m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool"]
            lengths = list(map(len, results))
            assert min(lengths[:2]) > LONG
            assert sum(lengths[:3]) <= TURN_CHARS + LATE_CHARS
            assert "characters left out" in results[2]
            assert 2000 <= lengths[3] <= LATE_CHARS, "a short one is read whole all the same"
            assert "left out" not in results[3]
            # The next turn has room of its own.
            await client.ask("again")
            last = [m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool"][-1]
            assert len(last) > LONG
