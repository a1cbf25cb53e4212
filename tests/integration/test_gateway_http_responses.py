"""/v1/responses, used by OpenAI's own SDK, with the real agent behind it."""

import base64
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.fakes.model import answers
from tests.integration.http_parts import Api, api
from tests.integration.test_agent_files import URL
from tests.integration.test_gateway_http import ECHO, steps

SEES = "models: {m: {vision: true}}"


async def test_a_response_and_the_next(tmp_path: Path) -> None:
    async with api(tmp_path, ECHO) as running:
        one = await running.client.responses.create(
            model="hermes", input="one", instructions="Be brief."
        )
        assert (one.status, one.output_text) == ("completed", "re: one")
        assert "Be brief." in running.sent()[0]["content"]
        two = await running.client.responses.create(
            model="hermes", input="two", previous_response_id=one.id
        )
        assert two.output_text == "re: two"
        assert two.previous_response_id == one.id
        heard = [m["content"] for m in running.sent() if m["role"] != "system"]
        assert heard == ["one", "re: one", "two"]
        assert (await running.client.responses.retrieve(one.id)).output_text == "re: one"
        with pytest.raises(openai.NotFoundError):
            await running.client.responses.create(
                model="hermes", input="x", previous_response_id="resp_unknown"
            )


async def test_a_streamed_response(tmp_path: Path) -> None:
    remember = {"name": "memory", "arguments": {"action": "add", "target": "user", "content": "x"}}
    slowly = {"chunk_chars": 4, "chunk_delay_s": 0.05}
    script = steps({"tool_calls": [remember]}, {"text": "Hello, you there!", **slowly})
    async with api(tmp_path, script) as running:
        async with running.client.responses.stream(model="hermes", input="Hi") as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
        assert final.output_text == "Hello, you there!"
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert "hermes.progress" in kinds
        assert kinds.count("response.output_text.delta") > 1


async def test_a_response_in_the_background(tmp_path: Path) -> None:
    async with api(tmp_path, ECHO) as running:
        begun = await running.client.responses.create(model="hermes", input="one", background=True)
        assert begun.status == "in_progress"
        await running.running.until_rows("agent", "SELECT state FROM turn", [("COMPLETED",)])
        assert (await running.client.responses.retrieve(begun.id)).output_text == "re: one"


async def test_a_model_that_fails(tmp_path: Path) -> None:
    refused = {"status": 401, "error": {"message": "no such key"}}
    async with api(tmp_path, answers(refused)) as running:
        with pytest.raises(openai.APIStatusError) as caught:
            await running.client.responses.create(model="hermes", input="Hi")
        assert caught.value.code == "model_auth"
        stream = await running.client.responses.create(model="hermes", input="Hi", stream=True)
        events = [event async for event in stream]
        assert events[-1].type == "response.failed"
        assert events[-1].response.status == "failed"


def shown(running: Api) -> list[Any]:
    """The pictures in the last question to the model."""
    parts: list[Any] = []
    for message in running.sent():
        parts += [] if isinstance(message["content"], str) else message["content"]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


async def test_pictures_reach_the_model(tmp_path: Path) -> None:
    async with api(tmp_path, answers({"text": "Nice."}), SEES) as running:
        picture = {"type": "image_url", "image_url": {"url": URL}}
        first = {"role": "user", "content": [{"type": "text", "text": "Look"}, picture]}
        status, answer = await running.post("/v1/chat/completions", {"messages": [first]})
        assert (status, shown(running)) == (200, [URL])
        messages = [first, answer["choices"][0]["message"], {"role": "user", "content": "And?"}]
        await running.post("/v1/chat/completions", {"messages": messages})
        # The session goes on, in which the picture is, and which is not given it again.
        assert shown(running) == [URL]
        await running.running.until_rows("agent", "SELECT count(*) FROM session", [(1,)])
        content: Any = [{"type": "input_image", "image_url": URL, "detail": "auto"}]
        await running.client.responses.create(
            model="hermes", input=[{"role": "user", "content": content}]
        )
        assert shown(running) == [URL]


async def test_files_that_cannot_be_taken(tmp_path: Path) -> None:
    async with api(tmp_path, answers({"text": "Nice."}), "media: {max_image_mb: 1}") as running:
        large = base64.b64encode(bytes(1_000_001)).decode()
        for data, why in ((large, "larger than 1 MB"), ("A", "not valid base64"), ("", "empty")):
            url = {"url": f"data:image/png;base64,{data}"}
            content = [{"type": "image_url", "image_url": url}]
            body = {"messages": [{"role": "user", "content": content}]}
            status, refused = await running.post("/v1/chat/completions", body)
            assert status == 400
            assert why in refused["error"]["message"]
        many = [{"type": "image_url", "image_url": {"url": URL}}] * 21
        body = {"messages": [{"role": "user", "content": many}]}
        assert (await running.post("/v1/chat/completions", body))[0] == 400
        assert running.model.requests == []
