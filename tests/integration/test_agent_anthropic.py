"""A whole conversation over Anthropic's Messages API: tools, thinking, a restart in between."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes.messages import MESSAGES, SIGNATURE
from tests.fakes.model import fake_model
from tests.integration.agent_parts import agent, answer

PLAN = {"todos": [{"id": "1", "content": "look", "status": "pending"}]}
SCRIPT = {
    "rules": [
        {
            "user": "plan",
            "steps": [
                {
                    "reasoning": "A plan first.",
                    "tool_calls": [{"name": "todo", "arguments": PLAN}],
                    "chunk_chars": 3,
                },
                {"text": "Planned."},
            ],
        },
        {"user": "and", "steps": [{"text": "Done."}] * 5},
    ]
}
MARK = b',"cache_control":{"type":"ephemeral"}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("model: {api: anthropic_messages}\n")
    return tmp_path


async def test_a_conversation_goes_on_after_a_restart_from_the_same_bytes(home: Path) -> None:
    async with fake_model(SCRIPT, MESSAGES) as model:
        async with agent(home, model.url) as client:
            assert answer(await client.ask("make a plan")) == "Planned."
        async with agent(home, model.url) as client:
            assert answer(await client.ask("and now?")) == "Done."
    first, second, third = model.bodies
    assert first["system"] == second["system"] == third["system"]
    thought, call = third["messages"][1]["content"]
    assert thought == {"type": "thinking", "thinking": "A plan first.", "signature": SIGNATURE}
    assert (call["type"], call["input"]) == ("tool_use", PLAN)
    (result,) = third["messages"][2]["content"]
    assert result["tool_use_id"] == call["id"]
    assert "look" in json.dumps(result["content"])
    bodies = [request.body for request in model.requests]
    assert [body.count(MARK) for body in bodies] == [2, 4, 4]
    for shorter, longer in pairwise(body.replace(MARK, b"") for body in bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))
