"""A whole conversation over other APIs: tools, reasoning, a restart in between."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path

from tests.fakes.messages import MESSAGES, SIGNATURE
from tests.fakes.model import FakeModel, fake_model
from tests.fakes.model_server import Speech
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
MARK = b',"cache_control":{"type":"ephemeral"}'


async def converse(home: Path, api: str, speech: Speech) -> FakeModel:
    """Ask twice with a restart in between; each request begins with the bytes of the one before."""
    config = f"model: {{api: {api}}}\n"
    await asyncio.to_thread((home / "config.yaml").write_text, config)
    async with fake_model(SCRIPT, speech) as model:
        async with agent(home, model.url) as client:
            assert answer(await client.ask("make a plan")) == "Planned."
        async with agent(home, model.url) as client:
            assert answer(await client.ask("and now?")) == "Done."
    bodies = [request.body.replace(MARK, b"") for request in model.requests]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))
    return model


async def test_a_conversation_goes_on_over_the_messages_api(tmp_path: Path) -> None:
    model = await converse(tmp_path, "anthropic_messages", MESSAGES)
    first, second, third = model.bodies
    assert first["system"] == second["system"] == third["system"]
    thought, call = third["messages"][1]["content"]
    assert thought == {"type": "thinking", "thinking": "A plan first.", "signature": SIGNATURE}
    assert (call["type"], call["input"]) == ("tool_use", PLAN)
    (result,) = third["messages"][2]["content"]
    assert result["tool_use_id"] == call["id"]
    assert "look" in json.dumps(result["content"])
    assert [request.body.count(MARK) for request in model.requests] == [2, 4, 4]


async def test_a_conversation_goes_on_over_the_responses_api(tmp_path: Path) -> None:
    model = await converse(tmp_path, "responses", RESPONSES)
    first, second, third = model.bodies
    assert first["instructions"] == second["instructions"] == third["instructions"]
    _, thought, call, result, said, _ = third["input"]
    assert (thought["type"], thought["encrypted_content"]) == ("reasoning", ENCRYPTED)
    assert (call["type"], call["name"]) == ("function_call", "todo")
    assert result["call_id"] == call["call_id"]
    assert "look" in result["output"]
    assert said["content"] == [{"type": "output_text", "text": "Planned."}]
