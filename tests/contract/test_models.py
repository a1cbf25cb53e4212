"""What every implementation of the Model seam does, against a real HTTP server."""

import asyncio
import json
import traceback
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from agent_service.models.base import (
    Model,
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    Usage,
    assistant_message,
    encoded,
)
from agent_service.models.chat_completions import ChatCompletions
from agent_service.models.endpoints import Endpoint
from agent_service.models.errors import ModelError, ModelErrorKind
from agent_service.models.retries import RetryPolicy
from agent_service.models.transport import Timeouts
from tests.fakes.model import FakeModel, answers, fake_model

KEY = "sk-secret-0123456789"
NO_RETRIES = RetryPolicy(max_retries=0)
QUICK_RETRIES = RetryPolicy(first_delay_s=0.01, longest_delay_s=0.01)
TOOLS = b'[{"type":"function","function":{"name":"terminal","parameters":{}}}]'

Connect = Callable[[Endpoint, RetryPolicy, Timeouts], AbstractAsyncContextManager[Model]]


def chat_completions(
    endpoint: Endpoint, retries: RetryPolicy, timeouts: Timeouts
) -> AbstractAsyncContextManager[Model]:
    return ChatCompletions(endpoint, retries, timeouts)


IMPLEMENTATIONS: Mapping[str, Connect] = {"chat_completions": chat_completions}


@pytest.fixture(params=list(IMPLEMENTATIONS))
def connect(request: pytest.FixtureRequest) -> Connect:
    return IMPLEMENTATIONS[request.param]


@asynccontextmanager
async def scripted(
    connect: Connect,
    script: Mapping[str, Any],
    retries: RetryPolicy = NO_RETRIES,
    timeouts: Timeouts | None = None,
) -> AsyncGenerator[tuple[Model, FakeModel]]:
    async with (
        fake_model(script) as server,
        connect(endpoint_at(server.url), retries, timeouts or Timeouts()) as model,
    ):
        yield model, server


def endpoint_at(url: str, provider: str = "custom") -> Endpoint:
    return Endpoint(url, SecretStr(KEY), "scripted", provider, "test", "HERMES_API_KEY")


def request(*messages: Mapping[str, Any], tools: bytes = TOOLS) -> ModelRequest:
    said = messages or ({"role": "user", "content": "Hello"},)
    return ModelRequest("scripted", [encoded(message) for message in said], tools)


async def ask(model: Model, asked: ModelRequest | None = None) -> list[ModelEvent]:
    async with model.stream(asked or request()) as events:
        return [event async for event in events]


async def answer(model: Model, asked: ModelRequest | None = None) -> ModelMessage:
    *_, last = await ask(model, asked)
    assert isinstance(last, ModelMessage)
    return last


async def failure(model: Model, asked: ModelRequest | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model, asked)
    return caught.value


def text_of(events: Sequence[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_text_comes_in_pieces_and_then_whole(connect: Connect) -> None:
    reply = {"text": "Grüße aus dem Norden ☃", "chunk_chars": 5, "chunk_delay_s": 0.001}
    async with scripted(connect, answers(reply)) as (model, _):
        events = await ask(model)
    *deltas, last = events
    assert isinstance(last, ModelMessage)
    assert all(isinstance(delta, TextDelta) and delta.attempt == 1 for delta in deltas)
    assert len(deltas) == 5
    assert text_of(events) == last.text == reply["text"]
    assert (last.finish_reason, last.model, last.provider) == ("stop", "scripted", "custom")
    assert last.tool_calls == ()


async def test_a_tool_call_is_put_together_from_its_pieces(connect: Connect) -> None:
    arguments = {"command": "df -h | sort", "timeout": 30}
    reply = {
        "text": "I look.",
        "tool_calls": [{"id": "call_a", "name": "terminal", "arguments": arguments}],
        "chunk_chars": 3,
    }
    async with scripted(connect, answers(reply)) as (model, _):
        message = await answer(model)
    assert message.text == "I look."
    assert message.finish_reason == "tool_calls"
    (call,) = message.tool_calls
    assert (call.id, call.name) == ("call_a", "terminal")
    assert json.loads(call.arguments_json) == arguments


async def test_parallel_tool_calls_keep_their_order(connect: Connect) -> None:
    calls = [{"id": f"c{n}", "name": "terminal", "arguments": f'{{"n":{n}}}'} for n in range(4)]
    async with scripted(connect, answers({"tool_calls": calls, "chunk_chars": 2})) as (model, _):
        message = await answer(model)
    assert message.tool_calls == tuple(
        ToolCall(f"c{n}", "terminal", f'{{"n":{n}}}') for n in range(4)
    )


async def test_malformed_arguments_are_handed_on_as_they_are(connect: Connect) -> None:
    reply = {"tool_calls": [{"id": "c", "name": "terminal", "arguments": '{"command": "ls'}]}
    async with scripted(connect, answers(reply)) as (model, _):
        message = await answer(model)
    assert message.tool_calls == (ToolCall("c", "terminal", '{"command": "ls'),)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "reasoning_details"])
async def test_reasoning_is_read_wherever_it_stands(connect: Connect, field: str) -> None:
    reply = {"text": "42", "reasoning": "Six by seven.", "reasoning_field": field, "chunk_chars": 4}
    async with scripted(connect, answers(reply)) as (model, _):
        events = await ask(model)
    shown = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    message = events[-1]
    assert isinstance(message, ModelMessage)
    assert shown == message.reasoning == "Six by seven."
    assert message.text == "42"


async def test_reasoning_details_go_back_to_who_sent_them_only(connect: Connect) -> None:
    reply = {"text": "42", "reasoning": "Six by seven.", "reasoning_field": "reasoning_details"}
    async with fake_model(answers(reply)) as server:
        router = connect(endpoint_at(server.url, "openrouter"), NO_RETRIES, Timeouts())
        other = connect(endpoint_at(server.url), NO_RETRIES, Timeouts())
        async with router as model, other as another:
            entry = assistant_message(await answer(model))
            user = {"role": "user", "content": "6 * 7?"}
            history = request(user, entry, user)
            await answer(model, history)
            await answer(another, history)
    _, echoed, stripped = (body["messages"] for body in server.bodies)
    details = [{"type": "reasoning.text", "text": "Six by seven.", "index": 0}]
    assert echoed[1] == {"role": "assistant", "content": "42", "reasoning_details": details}
    assert stripped[1] == {"role": "assistant", "content": "42"}


async def test_usage_is_reported_with_cache_and_cost(connect: Connect) -> None:
    usage = {
        "prompt_tokens": 1200,
        "completion_tokens": 34,
        "prompt_tokens_details": {"cached_tokens": 1024},
        "completion_tokens_details": {"reasoning_tokens": 12},
        "cost": 0.001234,
    }
    async with scripted(connect, answers({"text": "Hi", "usage": usage})) as (model, _):
        message = await answer(model)
    assert message.usage == Usage(1200, 34, 1024, 12, 1234)


async def test_no_usage_is_none(connect: Connect) -> None:
    chunk = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    async with scripted(connect, answers({"raw": [json.dumps(chunk), "[DONE]"]})) as (model, _):
        message = await answer(model)
    assert (message.text, message.usage) == ("Hi", None)


async def test_the_request_says_what_was_asked(connect: Connect) -> None:
    system = {"role": "system", "content": 'Sei höflich: \x00 \u2028 "quoted"'}
    user = {"role": "user", "content": "Hello"}
    async with scripted(connect, answers({"text": "Hi"})) as (model, server):
        await ask(model, request(system, user))
        await ask(model, ModelRequest("other", [encoded(user)], max_tokens=100))
    first, second = server.bodies
    assert first == {
        "model": "scripted",
        "messages": [system, user],
        "tools": json.loads(TOOLS),
        "tool_choice": "auto",
        "max_tokens": 16_384,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert (second["model"], second["max_tokens"]) == ("other", 100)
    assert "tools" not in second
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_longer_conversation_begins_with_the_same_bytes(connect: Connect) -> None:
    messages = [encoded({"role": "user", "content": f"Frage {n}: ä"}) for n in range(6)]
    async with scripted(connect, answers({"text": "Hi"})) as (model, server):
        for length in (3, 6):
            await ask(model, ModelRequest("scripted", messages[:length], TOOLS))
    short, long = (request.body for request in server.requests)
    kept = short.index(b"}]") + 1
    assert kept > sum(map(len, messages[:3]))
    assert short[:kept] == long[:kept]


async def test_the_connection_is_used_again(connect: Connect) -> None:
    async with scripted(connect, answers({"text": "Hi", "chunk_chars": 1})) as (model, server):
        for _ in range(3):
            await ask(model)
    assert len({request.peer for request in server.requests}) == 1


async def test_many_calls_run_side_by_side(connect: Connect) -> None:
    reply = {"text": "Hi there", "latency_s": 0.1, "chunk_chars": 2}
    async with scripted(connect, answers(reply)) as (model, server), asyncio.TaskGroup() as group:
        calls = [group.create_task(answer(model)) for _ in range(64)]
        await server.until(lambda: len(server.requests) == 64)
        assert not any(request.outcome for request in server.requests)
        assert {(await call).text for call in calls} == {"Hi there"}


STATUSES = [
    (400, {"message": "bad schema"}, ModelErrorKind.BAD_REQUEST, "rejected the request (HTTP 400)"),
    (401, {"message": "no such key"}, ModelErrorKind.AUTH, "check HERMES_API_KEY"),
    (402, {"message": "add credits"}, ModelErrorKind.BILLING, "top it up"),
    (403, {"message": "forbidden"}, ModelErrorKind.AUTH, "check HERMES_API_KEY"),
    (403, {"message": "flagged by moderation"}, ModelErrorKind.CONTENT_POLICY, "content policy"),
    (404, {"message": "no such model"}, ModelErrorKind.BAD_REQUEST, "has no model scripted"),
    (408, {"message": "too slow"}, ModelErrorKind.TIMEOUT, "took too long"),
    (413, {"message": "too large"}, ModelErrorKind.CONTEXT_OVERFLOW, "new session"),
    (
        400,
        {"message": "maximum context length is 8192", "code": "context_length_exceeded"},
        ModelErrorKind.CONTEXT_OVERFLOW,
        "too long for scripted",
    ),
    (429, {"message": "slow down"}, ModelErrorKind.RATE_LIMIT, "limits requests"),
    (429, {"message": "quota", "code": "insufficient_quota"}, ModelErrorKind.BILLING, "top it up"),
    (500, {"message": "oops"}, ModelErrorKind.OVERLOADED, "try again later"),
    (503, {"message": "busy"}, ModelErrorKind.OVERLOADED, "HTTP 503"),
    (529, {"message": "overloaded"}, ModelErrorKind.OVERLOADED, "HTTP 529"),
]


@pytest.mark.parametrize(("status", "error", "kind", "advice"), STATUSES)
async def test_an_error_says_what_to_do(
    connect: Connect, status: int, error: Mapping[str, str], kind: ModelErrorKind, advice: str
) -> None:
    reply = {"status": status, "error": {"error": error}}
    async with scripted(connect, answers(reply)) as (model, server):
        failed = await failure(model)
    assert (failed.kind, failed.status, failed.detail) == (kind, status, error["message"])
    assert server.url in str(failed) or "scripted" in str(failed)
    assert advice in str(failed)
    assert error["message"] in str(failed)
    assert "\n" not in str(failed)


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
    assert delta == TextDelta("Hi", 3)
    assert isinstance(message, ModelMessage)
    assert len(server.requests) == 3


async def test_retries_end(connect: Connect) -> None:
    async with scripted(connect, answers({"status": 503}), QUICK_RETRIES) as (model, server):
        failed = await failure(model)
    assert failed.kind is ModelErrorKind.OVERLOADED
    assert len(server.requests) == 1 + QUICK_RETRIES.max_retries


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413])
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


async def test_a_cut_stream_is_no_answer(connect: Connect) -> None:
    reply = {"text": "All is well", "chunk_chars": 4, "cut_after": 2}
    async with scripted(connect, answers(reply)) as (model, _):
        failed = await failure(model)
    assert failed.kind is ModelErrorKind.CUT_STREAM
    assert failed.retryable


async def test_a_cut_stream_is_begun_anew(connect: Connect) -> None:
    cut = {"text": "Wrong start", "chunk_chars": 5, "cut_after": 1, "chunk_delay_s": 0.001}
    async with scripted(connect, answers(cut, {"text": "Right"}), QUICK_RETRIES) as (model, _):
        partial, retry, whole, message = await ask(model)
    assert partial == TextDelta("Wrong", 1)
    assert isinstance(retry, ModelRetry)
    assert retry.reason is ModelErrorKind.CUT_STREAM
    assert whole == TextDelta("Right", 2)
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


@pytest.mark.parametrize("lines", BROKEN.values(), ids=list(BROKEN))
async def test_a_broken_stream_is_tried_again(connect: Connect, lines: Sequence[str]) -> None:
    script = answers({"raw": lines}, {"text": "Hi"})
    async with scripted(connect, script, QUICK_RETRIES) as (model, server):
        message = await answer(model)
    assert message.text == "Hi"
    assert len(server.requests) == 2


async def test_an_error_in_the_stream_keeps_its_kind(connect: Connect) -> None:
    error = {"error": {"message": "Rate limit exceeded", "code": 429}}
    async with scripted(connect, answers({"raw": [json.dumps(error)]})) as (model, _):
        failed = await failure(model)
    assert (failed.kind, failed.status) == (ModelErrorKind.RATE_LIMIT, 429)
    assert "Rate limit exceeded" in str(failed)


async def test_a_web_page_is_no_answer(connect: Connect) -> None:
    async with scripted(connect, answers({"error": "<html>Welcome</html>"})) as (model, _):
        failed = await failure(model)
    assert failed.kind is ModelErrorKind.BAD_REQUEST
    assert "check the base URL" in str(failed)


async def test_an_answer_that_is_not_streamed_is_read(connect: Connect) -> None:
    message = {"role": "assistant", "content": "Hi"}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    async with scripted(connect, answers({"error": body})) as (model, _):
        *deltas, last = await ask(model)
    assert text_of(deltas) == "Hi"
    assert isinstance(last, ModelMessage)


async def test_an_empty_answer_is_an_error(connect: Connect) -> None:
    async with scripted(connect, answers({}, {"text": "Hi"}), QUICK_RETRIES) as (model, _):
        retry, *_ = await ask(model)
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


@pytest.mark.parametrize("reply", [{"latency_s": 30}, {"hang_after": 0}, {"hang_after": 2}])
async def test_cancelling_closes_the_connection(connect: Connect, reply: Mapping[str, Any]) -> None:
    script = answers({"text": "Hi there", "chunk_chars": 2, **reply})
    async with scripted(connect, script) as (model, server):
        call = asyncio.create_task(ask(model))
        await server.until(lambda: bool(server.requests))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.until(lambda: server.requests[0].outcome != "")
        assert server.requests[0].outcome == "disconnected"


async def test_leaving_early_closes_the_connection(connect: Connect) -> None:
    reply = {"text": "Hi there", "chunk_chars": 2, "chunk_delay_s": 0.001, "hang_after": 3}
    async with scripted(connect, answers(reply)) as (model, server):
        async with model.stream(request()) as events:
            assert await anext(events) == TextDelta("Hi", 1)
        await server.until(lambda: server.requests[0].outcome != "")
        assert server.requests[0].outcome == "disconnected"


async def test_preparing_twice_is_fine(connect: Connect) -> None:
    async with scripted(connect, answers({"text": "Hi"})) as (model, _):
        await asyncio.gather(model.prepare(), model.prepare())
        assert (await answer(model)).text == "Hi"
