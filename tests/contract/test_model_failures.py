"""What every implementation of the Model seam does when a call fails, over a real connection."""

import json
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent_service.models.wires.transport import Timeouts
from agent_service.records.events import TextDelta
from agent_service.records.model import ModelMessage, ModelRetry, ModelWasted
from agent_service.records.model_errors import ModelErrorKind
from tests.contract.models import (
    IMPLEMENTATIONS,
    KEY,
    NO_RETRIES,
    ONLY_CHAT,
    QUICK_RETRIES,
    Connect,
    answer,
    ask,
    endpoint_at,
    failure,
    scripted,
)
from tests.fakes.model import answers, fake_model


@pytest.fixture(params=list(IMPLEMENTATIONS))
def connect(request: pytest.FixtureRequest) -> Connect:
    return IMPLEMENTATIONS[request.param]


async def test_the_key_is_in_no_error(connect: Connect) -> None:
    reply = {"status": 401, "error": {"error": {"message": f"Incorrect API key: {KEY}"}}}
    async with scripted(connect, answers(reply)) as (model, _):
        failed = await failure(model)
    assert "Incorrect API key" in str(failed)
    assert KEY not in "".join(traceback.format_exception(failed)) + failed.detail


async def test_a_failed_attempt_is_announced_and_repeated(connect: Connect) -> None:
    script = answers({"status": 503}, {"status": 500}, {"text": "Hi"})
    async with scripted(connect, script, QUICK_RETRIES) as (model, server):
        first, second, delta, message = await ask(model)
    assert isinstance(first, ModelRetry)
    assert isinstance(second, ModelRetry)
    assert (first.attempt, first.reason) == (1, ModelErrorKind.OVERLOADED)
    assert second.attempt == 2
    assert "HTTP 503" in first.message
    assert delta == TextDelta("Hi")
    assert isinstance(message, ModelMessage)
    assert len(server.requests) == 3


async def test_retries_end(connect: Connect) -> None:
    async with scripted(connect, answers({"status": 503}), QUICK_RETRIES) as (model, server):
        failed = await failure(model)
    assert failed.kind is ModelErrorKind.OVERLOADED
    assert len(server.requests) == 1 + QUICK_RETRIES.max_retries


@pytest.mark.parametrize("status", [400, 401])
async def test_what_cannot_succeed_is_not_repeated(connect: Connect, status: int) -> None:
    async with scripted(connect, answers({"status": status}), QUICK_RETRIES) as (model, server):
        failed = await failure(model)
    assert not failed.retryable
    assert len(server.requests) == 1


async def test_the_provider_says_when_to_come_back(connect: Connect) -> None:
    busy = {"status": 429, "headers": {"Retry-After": "0.05"}}
    async with scripted(connect, answers(busy, {"text": "Hi"}), QUICK_RETRIES) as (model, _):
        retry, *_ = await ask(model)
    assert isinstance(retry, ModelRetry)
    assert retry.reason is ModelErrorKind.RATE_LIMIT
    assert 0.05 <= retry.delay_s <= 0.06


async def test_nobody_waits_an_hour(connect: Connect) -> None:
    busy = {"status": 429, "headers": {"Retry-After": "3600"}}
    async with scripted(connect, answers(busy), QUICK_RETRIES) as (model, server):
        failed = await failure(model)
    assert failed.retry_after_s == 3600
    assert len(server.requests) == 1


async def test_a_cut_stream_is_begun_anew(connect: Connect) -> None:
    cut = {"text": "Wrong start", "chunk_chars": 5, "cut_after": 1, "chunk_delay_s": 0.001}
    async with scripted(connect, answers(cut, {"text": "Right"}), QUICK_RETRIES) as (model, _):
        partial, retry, whole, message = await ask(model)
    assert partial == TextDelta("Wrong")
    assert isinstance(retry, ModelRetry)
    assert retry.reason is ModelErrorKind.CUT_STREAM
    assert whole == TextDelta("Right")
    assert isinstance(message, ModelMessage)
    assert message.text == "Right"


BROKEN = {
    "no end": [json.dumps({"choices": [{"delta": {"content": "Hi"}}]})],
    "not JSON": ['{"choices": [', "[DONE]"],
    "no object": ["[1, 2]", "[DONE]"],
    "an error of a server": [json.dumps({"error": {"message": "boom", "code": 502}})],
    "finished with an error": [json.dumps({"choices": [{"finish_reason": "error"}]}), "[DONE]"],
    "a call without a name": [
        json.dumps({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{}"}}]}}]}),
        json.dumps({"choices": [{"finish_reason": "tool_calls"}]}),
    ],
}


@ONLY_CHAT
@pytest.mark.parametrize("lines", BROKEN.values(), ids=list(BROKEN))
async def test_a_broken_stream_is_tried_again(connect: Connect, lines: Sequence[str]) -> None:
    script = answers({"raw": lines}, {"text": "Hi"})
    async with scripted(connect, script, QUICK_RETRIES) as (model, server):
        message = await answer(model)
    assert message.text == "Hi"
    assert len(server.requests) == 2


@ONLY_CHAT
async def test_a_failed_call_holds_no_connection(connect: Connect) -> None:
    error = json.dumps({"error": {"message": "boom", "code": 502}})
    async with scripted(connect, answers({"raw": [error, "more"], "hang_after": 1})) as (
        model,
        server,
    ):
        failed = await failure(model)
        await server.until(lambda: server.requests[0].outcome != "")
    assert failed.kind is ModelErrorKind.OVERLOADED
    assert server.requests[0].outcome == "disconnected"


async def test_a_web_page_is_no_answer(connect: Connect) -> None:
    async with scripted(connect, answers({"error": "<html>Welcome</html>"})) as (model, _):
        failed = await failure(model)
    assert failed.kind is ModelErrorKind.BAD_REQUEST
    assert "check the base URL" in str(failed)


async def test_an_empty_answer_is_an_error(connect: Connect) -> None:
    async with scripted(connect, answers({}, {"text": "Hi"}), QUICK_RETRIES) as (model, _):
        wasted, retry, *_ = await ask(model)
    assert isinstance(wasted, ModelWasted)
    assert wasted.message.text == ""
    assert isinstance(retry, ModelRetry)
    assert retry.reason is ModelErrorKind.EMPTY


async def test_an_answer_that_ran_out_of_tokens_says_so(connect: Connect) -> None:
    reply = {"reasoning": "Hm.", "finish_reason": "length"}
    async with scripted(connect, answers(reply)) as (model, _):
        failed = await failure(model)
    assert "raise model.max_tokens" in str(failed)
    assert not failed.retryable


@pytest.mark.parametrize("reply", [{"latency_s": 30}, {"hang_after": 0}, {"hang_after": 1}])
async def test_silence_is_a_timeout(connect: Connect, reply: Mapping[str, Any]) -> None:
    script = answers({"text": "Hi", **reply})
    async with scripted(connect, script, timeouts=Timeouts(idle_s=0.2)) as (model, server):
        failed = await failure(model)
        await server.until(lambda: server.requests[0].outcome == "disconnected")
    assert failed.kind is ModelErrorKind.TIMEOUT
    assert "0.2 s" in str(failed)


async def test_nobody_there_is_a_connection_error(connect: Connect) -> None:
    async with fake_model(answers({"text": "Hi"})) as server:
        url = server.url
    async with connect(endpoint_at(url), NO_RETRIES, Timeouts()) as model:
        failed = await failure(model)
    assert failed.kind is ModelErrorKind.CONNECTION
    assert f"Cannot reach the model endpoint {url}" in str(failed)
