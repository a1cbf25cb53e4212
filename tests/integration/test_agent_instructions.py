"""What a session's model is told of how to work, by which model it is."""

import asyncio
from pathlib import Path

import pytest

from agent_service.prompt.system_prompt import TOOL_USE, TOOL_USE_ENFORCED
from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import agent


@pytest.mark.parametrize(
    ("model_id", "setting", "is_told"),
    [
        ("openai/GPT-9", "", True),
        ("some-codex-mini", "auto", True),
        ("scripted", "", False),
        ("scripted", "on", True),
        ("scripted", "true", True),
        ("gpt-9", "false", False),
        ("gpt-9", "off", False),
        ("gpt-9", "[script, other]", False),
        ("scripted", "[script, other]", True),
    ],
)
async def test_models_that_announce_are_told_to_act(
    tmp_path: Path, model_id: str, setting: str, is_told: bool
) -> None:
    text = f"agent: {{tool_use_enforcement: {setting}}}\n" if setting else ""
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, text)
    async with (
        fake_model(answers({"text": "Yes."})) as model,
        agent(tmp_path, model.url, HERMES_MODEL=model_id) as client,
    ):
        await client.ask("hi")
        system = model.bodies[0]["messages"][0]["content"]
    assert TOOL_USE in system
    assert (TOOL_USE_ENFORCED in system) is is_told
