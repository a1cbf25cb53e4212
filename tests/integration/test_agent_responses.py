"""A whole conversation over OpenAI's Responses API: tools, reasoning, a restart in between."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes.model import fake_model
from tests.fakes.responses import ENCRYPTED, RESPONSES
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


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("model: {api: responses}\n")
    return tmp_path


async def test_a_conversation_goes_on_after_a_restart_from_the_same_bytes(home: Path) -> None:
    async with fake_model(SCRIPT, RESPONSES) as model:
        async with agent(home, model.url) as client:
            assert answer(await client.ask("make a plan")) == "Planned."
        async with agent(home, model.url) as client:
            assert answer(await client.ask("and now?")) == "Done."
    first, second, third = model.bodies
    assert first["instructions"] == second["instructions"] == third["instructions"]
    _, thought, call, result, said, _ = third["input"]
    assert (thought["type"], thought["encrypted_content"]) == ("reasoning", ENCRYPTED)
    assert (call["type"], call["name"]) == ("function_call", "todo")
    assert result["call_id"] == call["call_id"]
    assert "look" in result["output"]
    assert said["content"] == [{"type": "output_text", "text": "Planned."}]
    bodies = [request.body for request in model.requests]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))
