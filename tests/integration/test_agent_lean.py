"""What a greeting costs, and the lean tools of models with little context."""

import asyncio
import json
from pathlib import Path
from typing import Any

from agent_service.tools.schema import LEAN
from tests.fakes.model import FakeModel, answers, fake_model
from tests.integration.agent_parts import agent, answer, notices

HI = answers({"text": "Hi."})
FULL_TOKENS, LEAN_TOKENS, SMALL = 7_000, 2_000, 8_192


def tokens(model: FakeModel) -> int:
    return len(model.requests[-1].body) // 4


def tools_of(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", [])]


async def configure(home: Path, **settings: Any) -> None:
    await asyncio.to_thread((home / "config.yaml").write_text, json.dumps(settings), "utf-8")


async def test_a_greeting_is_not_dear(tmp_path: Path) -> None:
    await configure(tmp_path, mixture={"reference_models": ["a", "b"]})
    more = {"HERMES_SKILLS_BUNDLED": "true", "BRAVE_API_KEY": "test-key"}
    async with fake_model(HI) as model, agent(tmp_path, model.url, **more) as client:
        said = await client.ask("hello")
        assert answer(said) == "Hi."
        assert notices(said) == []
        assert 5_000 < tokens(model) <= FULL_TOKENS
        wanted = {"skill_manage", "cronjob", "web_search", "mixture_of_agents"}
        assert wanted <= {*tools_of(model.bodies[0])}


async def test_a_model_with_little_context_gets_few_tools_and_says_so(tmp_path: Path) -> None:
    await configure(tmp_path, models={"scripted": {"window": SMALL}})
    async with (
        fake_model(HI) as model,
        agent(tmp_path, model.url, HERMES_SKILLS_BUNDLED="true") as client,
    ):
        (told,) = notices(await client.ask("hello"))
        assert told == (
            "This session has the lean tools, as its model has 8,192 tokens of context: terminal, "
            "files, memory and skills. For all tools: hermes config set tools full."
        )
        assert tokens(model) <= LEAN_TOKENS
        assert tools_of(model.bodies[0]) == list(LEAN)
        assert model.bodies[0]["max_tokens"] <= SMALL // 4
        assert notices(await client.ask("hello again")) == []


async def test_the_context_of_a_local_server_is_asked_of_it(tmp_path: Path) -> None:
    async with fake_model({**HI, "window": SMALL}) as model, agent(tmp_path, model.url) as client:
        await client.ask("hello")
        assert tools_of(model.bodies[0]) == list(LEAN)


async def test_a_session_keeps_its_tools(tmp_path: Path) -> None:
    await configure(tmp_path, tools="lean")
    async with fake_model(HI) as model, agent(tmp_path, model.url) as client:
        (told,) = notices(await client.ask("hello"))
        assert "as configured (tools.preset)" in told
    await configure(tmp_path, tools={"preset": "full", "disabled": ["cron"]})
    async with fake_model(HI) as model, agent(tmp_path, model.url) as client:
        await client.ask("and now?")
        await client.ask("hello", session_id="another")
        first, second = model.bodies
        assert tools_of(first) == list(LEAN)
        assert "process" in tools_of(second)


async def test_a_refusal_names_the_figures_and_the_way_out_and_is_learned_from(
    tmp_path: Path,
) -> None:
    refused = {"message": "This model's maximum context length is 4096 tokens, not 7800."}
    script = answers({"status": 400, "error": {"error": refused}})
    script["rules"].insert(0, {"user": "again", "steps": [{"text": "Hi."}]})
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        said = (await client.ask("hello"))[-1].turn_finished.failed.failure.message
        for part in ("about 5,", "takes 4,096", "config set tools lean", "--ctx-size", "not 7800"):
            assert part in said
        assert tokens(model) > LEAN_TOKENS
        await client.ask("again", session_id="another")
        assert tools_of(model.bodies[-1]) == list(LEAN)


async def test_long_files_are_cut_for_a_model_with_little_context(tmp_path: Path) -> None:
    await configure(tmp_path, tools="lean")
    await asyncio.to_thread((tmp_path / "SOUL.md").write_text, "Be kind. " * 2_000, "utf-8")
    async with fake_model(HI) as model, agent(tmp_path, model.url) as client:
        await client.ask("hello")
        assert tokens(model) <= LEAN_TOKENS
        assert "too long for this model" in model.bodies[0]["messages"][0]["content"]
