"""/v1/responses, used by OpenAI's own SDK, with the real agent behind it."""

from pathlib import Path

import openai
import pytest

from tests.fakes.model import answers
from tests.integration.http_parts import api
from tests.integration.test_gateway_http import ECHO, steps


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
