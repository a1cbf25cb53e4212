"""`vision_analyze` and `mixture_of_agents` in the real loop: what other models are asked."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent_service.models.fallback import USUAL, Route
from agent_service.records.sandbox import PathRefused
from agent_service.tools.base import ToolContext
from agent_service.tools.vision_analyze import VisionAnalyze, VisionAnalyzeArguments
from hermes.agent.v1 import usage_pb2
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from tests.fakes.model import answers, call, fake_model
from tests.fakes.web import site
from tests.integration.agent_parts import agent, answer
from tests.integration.test_agent_web import home, told
from tests.support.reach import out_of_reach

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def picture(request: web.Request) -> web.StreamResponse:
    bodies = {"/red.png": PNG, "/page": b"<html>", "/large": PNG + bytes(11_000_000)}
    if request.path not in bodies:
        return web.Response(status=404)
    return web.Response(body=bodies[request.path])


async def test_a_picture_goes_to_the_model_that_sees(tmp_path: Path) -> None:
    async with site(picture) as pages:
        url = pages.url("127.0.0.1", "/red.png")
        script = {
            "rules": [
                {"user": "What colour", "steps": [{"text": "It is red."}]},
                {
                    "steps": [
                        call("vision_analyze", image=url, question="What colour?"),
                        {"text": "{tool_result}"},
                    ]
                },
            ]
        }
        async with fake_model(script) as model:
            folder = await home(tmp_path, pages)
            await add(folder, "auxiliary:\n  vision:\n    model: seer\n")
            async with agent(folder, model.url) as client:
                text = answer(await client.ask("look"))
            looked = model.bodies[1]
    assert "It is red." in text
    assert text.startswith("[Untrusted data ")
    assert looked["model"] == "seer"
    assert "tools" not in looked
    question, image = looked["messages"][-1]["content"]
    assert question == {"type": "text", "text": "What colour?"}
    sent = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert image == {"type": "image_url", "image_url": {"url": sent}}


async def test_a_task_has_a_model_elsewhere_with_a_key_of_its_own(tmp_path: Path) -> None:
    async with site(picture) as pages:
        look = call("vision_analyze", image=pages.url("127.0.0.1", "/red.png"))
        async with (
            fake_model(answers({"text": "It is red."})) as seeing,
            fake_model({"rules": [{"steps": [look, {"text": "{tool_result}"}]}]}) as model,
        ):
            folder = await home(tmp_path, pages)
            where = f'model: eyes, base_url: "{seeing.url}", key_env: EYES_API_KEY, timeout: 30'
            await add(folder, f"auxiliary: {{vision: {{{where}}}, approval: {{provider: auto}}}}")
            async with agent(folder, model.url, EYES_API_KEY="another-key") as client:
                assert "It is red." in answer(await client.ask("look"))
    (asked,) = seeing.requests
    assert asked.headers["authorization"] == "Bearer another-key"
    assert [body["model"] for body in seeing.bodies] == ["eyes"]
    assert all("another-key" not in str(request.headers) for request in model.requests)


@pytest.mark.parametrize(
    ("path", "why"),
    [("/page", "not a PNG"), ("/none", "status 404"), ("/large", "larger than 10,000,000")],
)
async def test_what_is_no_picture_is_told(tmp_path: Path, path: str, why: str) -> None:
    async with site(picture) as pages:
        url = pages.url("127.0.0.1", path)
        script = {"rules": [{"steps": [call("vision_analyze", image=url), {"text": "no"}]}]}
        async with (
            fake_model(script) as model,
            agent(await home(tmp_path, pages), model.url) as client,
        ):
            await client.ask("look")
            assert why in told(model)
            assert len(model.bodies) == 2


async def test_a_picture_of_the_sandbox_is_read_there() -> None:
    asked: list[Any] = []

    class Files:
        async def read(self, path: str, max_bytes: int) -> bytes:
            if path not in ("a.png", "c.png"):
                raise PathRefused("there is no such file")
            return PNG

    async def ask(
        messages: Any, route: Route = USUAL, /, *, time_limit_s: float | None = None
    ) -> str:
        asked.append((messages, route))
        return "a dot"

    tool = VisionAnalyze(out_of_reach().web.fetcher, Route())
    files: Any = Files()
    unused: Any = None
    context = ToolContext("1", unused, files, unused, unused, unused, None, print, ask=ask)
    result = await tool.run(VisionAnalyzeArguments(image="a.png"), context)
    assert result.text == "a dot"
    assert "Describe" in asked[0][0][1]["content"][0]["text"]
    both = VisionAnalyzeArguments(image="a.png", images=["c.png"], question="Which is larger?")
    await tool.run(both, context)
    text, *pictures = asked[1][0][1]["content"]
    assert text["text"] == "Which is larger?"
    assert [each["type"] for each in pictures] == ["image_url"] * 2
    assert tool.writes(both) == {"/workspace/a.png", "/workspace/c.png"}
    with pytest.raises(PathRefused):
        await tool.run(VisionAnalyzeArguments(image="b.png"), context)


MIXTURE = "mixture:\n  reference_models: [one, two, three]\n  aggregator_model: judge\n"


async def test_several_models_answer_and_one_concludes(tmp_path: Path) -> None:
    script = {
        "rules": [
            {
                "user": "What is 6 times 7",
                "steps": [
                    [
                        {"text": "42"},
                        {"text": "41"},
                        {"status": 400, "error": {"message": "no"}},
                        {"text": "It is 42."},
                    ]
                ],
            },
            {
                "steps": [
                    call("mixture_of_agents", prompt="What is 6 times 7?"),
                    {"text": "{tool_result}"},
                ]
            },
        ]
    }
    async with fake_model(script) as model:
        await add(tmp_path, MIXTURE)
        async with agent(tmp_path, model.url) as client:
            text = answer(await client.ask("think"))
        bodies = model.bodies[1:5]
    assert text == "It is 42.\n[1 of 3 models did not answer]"
    assert [body["model"] for body in bodies[:3]] != ["judge"] * 3
    assert sorted(body["model"] for body in bodies) == ["judge", "one", "three", "two"]
    system, question = bodies[3]["messages"]
    assert "## Answer 1\n4" in system["content"]
    assert "## Answer 3" not in system["content"]
    assert question == {"role": "user", "content": "What is 6 times 7?"}


def _mixture() -> dict[str, Any]:
    used = {"prompt_tokens": 100, "completion_tokens": 10}
    asked = {"text": "42", "usage": used}
    own = call("mixture_of_agents", prompt="6 times 7?")
    return {
        "rules": [
            {"user": "6 times 7", "steps": [asked]},
            {"steps": [{**own, "usage": used}, {"text": "{tool_result}", "usage": used}]},
        ]
    }


async def test_what_tools_ask_counts_with_the_turn(tmp_path: Path) -> None:
    async with fake_model(_mixture()) as model:
        await add(tmp_path, MIXTURE)
        async with agent(tmp_path, model.url) as client:
            events = await client.ask("think")
            request = usage_pb2.GetUsageRequest(group_by=usage_pb2.USAGE_GROUP_MODEL)
            found = await UsageServiceStub(client.channels.to("agent")).GetUsage(request)
    assert events[-1].turn_finished.usage.prompt_tokens == 600
    by_model = {one.key: one.usage.prompt_tokens for one in found.sums}
    assert by_model == {"scripted": 200, "one": 100, "two": 100, "three": 100, "judge": 100}


async def test_tools_ask_nothing_past_a_budget(tmp_path: Path) -> None:
    async with fake_model(_mixture()) as model:
        # Each call may take 5,000 tokens and its prompt: two have room beside each other.
        budget = "budget: {session: {tokens: 12000}}\nmodel: {max_tokens: 5000}\n"
        await add(tmp_path, MIXTURE + budget)
        async with agent(tmp_path, model.url) as client:
            await client.ask("think")
        asked = [body["model"] for body in model.bodies]
    assert len([name for name in asked if name in {"one", "two", "three"}]) == 2
    assert "1 of 3 models did not answer" in told(model)


async def add(folder: Path, text: str) -> None:
    def write() -> None:
        with (folder / "config.yaml").open("a") as out:
            out.write(text)

    await asyncio.to_thread(write)
