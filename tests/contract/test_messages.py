"""Anthropic's Messages API in particular: blocks, signatures, cache marks and counts."""

import json
from itertools import pairwise
from typing import Any

import pytest

from agent_service.models.provider import Provider
from agent_service.models.wires.messages import Messages
from agent_service.records.events import ReasoningDelta
from agent_service.records.model import (
    Model,
    ModelMessage,
    ModelRequest,
    assistant_message,
    encoded,
)
from agent_service.records.model_errors import ModelErrorKind
from agent_service.records.usage import Usage
from tests.contract.models import (
    NO_RETRIES,
    STEPS,
    SYSTEM,
    TOOLS,
    USER,
    answer,
    ask,
    begun_with,
    called,
    endpoint_at,
    failure,
    messages,
    request,
    result,
    scripted,
    sent,
)
from tests.fakes.messages import MESSAGES, SIGNATURE
from tests.fakes.model import answers, fake_model

MARK = {"type": "ephemeral"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE}


async def test_a_request_has_the_apis_own_form() -> None:
    body = await sent(MESSAGES, Messages(), SYSTEM, USER)
    assert body == {
        "model": "scripted",
        "stream": True,
        "max_tokens": 16_384,
        "tools": [{"name": "terminal", "description": "", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
        "system": [{"type": "text", "text": "Be kind.", "cache_control": MARK}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Wie spät?", "cache_control": MARK}],
            }
        ],
    }


async def test_results_of_one_answer_share_a_message() -> None:
    body = await sent(
        MESSAGES, Messages(), SYSTEM, USER, called("a", "b"), result("a"), result("b", ""), USER
    )
    _, calls, results, _ = body["messages"]
    assert [block["id"] for block in calls["content"]] == ["a", "b"]
    assert calls["content"][0]["input"] == {"n": 1}
    assert results["role"] == "user"
    assert [block["tool_use_id"] for block in results["content"]] == ["a", "b"]


async def test_what_other_providers_wrote_is_put_into_words_that_are_allowed() -> None:
    call = {"id": "functions.ls:0", "function": {"name": "ls me", "arguments": '{"a'}}
    foreign = {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]}
    said = {"role": "assistant", "content": " ", "tool_calls": [call], **foreign}
    body = await sent(MESSAGES, Messages(), USER, said, result("functions.ls:0"))
    (use,) = body["messages"][1]["content"]
    assert (use["id"], use["name"]) == ("functions_ls_0", "ls_me")
    assert use["input"] == {"malformed": '{"a'}


async def test_a_picture_goes_as_an_image_block() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    body = await sent(
        MESSAGES, Messages(), {"role": "user", "content": [{"type": "text", "text": "What?"}, url]}
    )
    source = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
    assert body["messages"][0]["content"][1]["source"] == source


async def test_thinking_goes_back_signed_and_in_front() -> None:
    reply = {
        "reasoning": "Hm.",
        "text": "I look.",
        "tool_calls": [{"id": "a", "name": "terminal", "arguments": {"n": 1}}],
        "chunk_chars": 2,
    }
    async with scripted(messages, begun_with(reply)) as (model, server):
        events = await ask(model)
        message = events[-1]
        assert isinstance(message, ModelMessage)
        await ask(model, request(USER, assistant_message(message), result("a")))
    shown = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    assert shown == message.reasoning == "Hm."
    assert message.reasoning_details == (THOUGHT,)
    body = server.bodies[-1]
    thought, text, use = body["messages"][1]["content"]
    assert (thought, text["text"], use["id"]) == (THOUGHT, "I look.", "a")


def event(kind: str, **fields: object) -> str:
    return json.dumps({"type": kind, **fields})


def block(number: int, **fields: object) -> str:
    return event("content_block_start", index=number, content_block=fields)


STOP = [event("message_delta", delta={"stop_reason": "end_turn"}), event("message_stop")]


async def test_thinking_between_other_blocks_keeps_its_place() -> None:
    hidden = {"type": "redacted_thinking", "data": "c2VjcmV0"}
    parts = [THOUGHT, {"type": "text", "text": "First."}, hidden, {"type": "text", "text": "Last."}]
    lines = [block(number, **part) for number, part in enumerate(parts)]
    async with scripted(messages, answers({"raw": [*lines, *STOP]})) as (model, server):
        message = await answer(model)
        await ask(model, request(USER, assistant_message(message), USER))
    assert message.text == "First.Last."
    body = server.bodies[-1]
    *before, last = body["messages"][1]["content"]
    assert [*before, {"type": "text", "text": last["text"]}] == parts


async def test_what_the_cache_did_is_counted() -> None:
    usage = {
        "input_tokens": 100,
        "output_tokens": 34,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 200,
        "output_tokens_details": {"thinking_tokens": 12},
    }
    async with scripted(messages, answers({"text": "Hi", "usage": usage})) as (model, _):
        message = await answer(model)
    assert message.usage == Usage(1300, 34, 1000, 12, None, 200)


@pytest.mark.parametrize(
    ("stop", "finish"), [("max_tokens", "length"), ("stop_sequence", "stop"), ("end_turn", "stop")]
)
async def test_why_it_stopped_is_said_in_common_words(stop: str, finish: str) -> None:
    async with scripted(messages, answers({"text": "Hi", "finish_reason": stop})) as (model, _):
        assert (await answer(model)).finish_reason == finish


@pytest.mark.parametrize(
    "lines",
    [[block(0, type="text", text="Hi")], [block(0, type="tool_use", id="a"), *STOP], ["{"]],
    ids=["no end", "a call without a name", "not JSON"],
)
async def test_a_broken_stream_is_a_cut_one(lines: list[str]) -> None:
    async with scripted(messages, answers({"raw": lines})) as (model, _):
        assert (await failure(model)).kind is ModelErrorKind.CUT_STREAM


async def test_an_answer_that_is_not_streamed_is_read() -> None:
    content = [{"type": "text", "text": "Hi"}]
    body = {"type": "message", "model": "m", "content": content, "stop_reason": "end_turn"}
    async with scripted(messages, answers({"error": body})) as (model, _):
        assert (await answer(model)).text == "Hi"


async def test_marks_move_and_nothing_else_does() -> None:
    """Each request begins with the last one's bytes, its marks aside, and has at most four."""
    said: list[dict[str, Any]] = [SYSTEM]
    async with scripted(messages, STEPS) as (model, server):
        for turn in range(6):
            said.append(USER)
            await _asked(model, said)
            said += [called(f"a{turn}", f"b{turn}"), result(f"a{turn}"), result(f"b{turn}")]
            await _asked(model, said)
            said.append({"role": "assistant", "content": f"½ {turn}"})
    bodies = [exchange.body for exchange in server.requests]
    mark = b',"cache_control":' + encoded(MARK)
    marked = [
        [number for number, one in enumerate(body["messages"]) if "cache_control" in str(one)]
        for body in server.bodies
    ]
    assert all(body.count(mark) <= 4 and b'"system":[{' in body for body in bodies)
    lengths = [len(body["messages"]) for body in server.bodies]
    assert marked == [list(range(max(0, length - 3), length)) for length in lengths]
    for shorter, longer in pairwise(body.replace(mark, b"") for body in bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))


async def _asked(model: Model, said: list[dict[str, Any]]) -> None:
    await ask(model, ModelRequest("scripted", [encoded(message) for message in said], TOOLS))


async def test_what_is_to_be_cached_for_an_hour_is_marked_so() -> None:
    body = await sent(MESSAGES, Messages(cache_ttl="1h"), SYSTEM, USER)
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


async def test_a_model_thinks_as_hard_as_it_is_told_where_it_may() -> None:
    wire = Messages(effort="high")
    body = await sent(MESSAGES, wire, USER)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": "high"}
    begun_without = await sent(MESSAGES, wire, USER, called("a"), result("a"))
    assert "thinking" not in begun_without


async def test_a_model_that_cannot_choose_gets_a_number_of_tokens_from_then_on() -> None:
    message = "adaptive thinking is not supported on this model"
    rejected = {"status": 400, "error": {"error": {"message": message}}}
    async with (
        fake_model(answers(rejected, {"text": "Hi"}), MESSAGES) as server,
        Provider(endpoint_at(server.url), Messages(effort="low"), NO_RETRIES) as model,
    ):
        await ask(model)
        await ask(model)
    _, *others = [body["thinking"] for body in server.bodies]
    assert others == [{"type": "enabled", "budget_tokens": 2048}] * 2
