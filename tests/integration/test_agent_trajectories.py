"""Turns that have ended are written down where that is wanted, and that it fails harms nobody."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import agent, answer

SECRET = "sk-or-v1-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
SCRIPT: dict[str, Any] = {
    "rules": [
        {"user": "fail", "steps": [{"status": 400}]},
        {
            "user": "plan",
            "steps": [
                {"reasoning": "Hm.", "tool_calls": [{"name": "todo", "arguments": {}}]},
                {"text": "planned"},
            ],
        },
        {"steps": [{"text": "well"}]},
    ]
}


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


async def test_each_turn_is_a_line_without_secrets(tmp_path: Path) -> None:
    async with fake_model(SCRIPT) as model:
        async with agent(tmp_path, model.url, HERMES_SAVE_TRAJECTORIES="true") as client:
            await client.ask(f"my key is {SECRET}")
            await client.ask("plan it")
            await client.ask("fail now")
        kept = await asyncio.to_thread(_read, tmp_path / "trajectory_samples.jsonl")
        assert [len(one["conversations"]) for one in kept] == [3, 5]
        assert SECRET not in str(kept)
        assert "my key is" in kept[0]["conversations"][1]["value"]
        system, human, *_, last = kept[1]["conversations"]
        assert system["value"].startswith(model.bodies[0]["messages"][0]["content"])
        assert '"name":"todo"' in system["value"]
        assert (human["value"], last["value"]) == ("plan it", "<think>\n\n</think>\nplanned")
        assert kept[1]["conversations"][2]["value"].startswith("<think>\nHm.\n</think>")
        [failed] = await asyncio.to_thread(_read, tmp_path / "failed_trajectories.jsonl")
        assert failed["completed"] is False
        mode = (await asyncio.to_thread((tmp_path / "trajectory_samples.jsonl").stat)).st_mode
        assert mode & 0o777 == 0o600


async def test_a_line_that_cannot_be_written_ends_no_turn(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "trajectory_samples.jsonl").mkdir)
    script = answers({"text": "well"})
    async with (
        fake_model(script) as model,
        agent(tmp_path, model.url, HERMES_SAVE_TRAJECTORIES="true") as client,
    ):
        for _ in range(2):
            assert answer(await client.ask("hi")) == "well"


async def test_nothing_is_written_unasked(tmp_path: Path) -> None:
    async with fake_model(answers({"text": "well"})) as model, agent(tmp_path, model.url) as client:
        await client.ask("hi")
    assert not await asyncio.to_thread(lambda: list(tmp_path.glob("*.jsonl")))
