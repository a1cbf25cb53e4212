"""OpenAI's Responses API in particular: items, encrypted reasoning, endings and counts."""

import json
from itertools import pairwise
from typing import Any

import pytest

from agent_service.models.provider import Provider
from agent_service.models.wires.responses import Responses
from agent_service.records.events import ReasoningDelta, TextDelta
from agent_service.records.model import ModelMessage, ToolCall, assistant_message
from agent_service.records.model_errors import ModelErrorKind
from agent_service.records.usage import Usage
from tests.contract.models import (
    NO_RETRIES,
    STEPS,
    SYSTEM,
    USER,
    answer,
    ask,
    begun_with,
    called,
    endpoint_at,
    failure,
    request,
    responses,
    result,
    scripted,
    sent,
)
from tests.fakes.model import answers, fake_model
from tests.fakes.responses import ENCRYPTED, RESPONSES

ASKED = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "Wie spät?"}],
}
THOUGHT: dict[str, Any] = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": ENCRYPTED,
}


def output(call: str, text: str = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call, "output": text}


async def test_a_request_has_the_apis_own_form() -> None:
    body = await sent(RESPONSES, Responses(), SYSTEM, USER)
    assert body == {
        "model": "scripted",
        "stream": True,
        "store": False,
        "max_output_tokens": 16_384,
        "include": ["reasoning.encrypted_content"],
        "tools": [
            {
                "type": "function",
                "name": "terminal",
                "description": "",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "tool_choice": "auto",
        "instructions": "Be kind.",
        "input": [ASKED],
    }


async def test_calls_and_their_results_are_items() -> None:
    body = await sent(
        RESPONSES, Responses(), SYSTEM, USER, called("a", "b"), result("a"), result("b", ""), USER
    )
    call = {"type": "function_call", "name": "terminal", "arguments": '{"n":1}'}
    calls = [{**call, "call_id": "a"}, {**call, "call_id": "b"}]
    assert body["input"] == [ASKED, *calls, output("a"), output("b", ""), ASKED]


async def test_what_other_providers_wrote_is_put_into_words_that_are_allowed() -> None:
    long_id = "x" * 90 + "1"
    call = {"id": long_id, "function": {"name": "ls me", "arguments": '{"a'}}
    foreign = {"reasoning_details": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]}
    said = {"role": "assistant", "content": "I look.", "tool_calls": [call], **foreign}
    body = await sent(RESPONSES, Responses(), USER, said, result(long_id))
    _, text, use, told = body["input"]
    assert text["content"] == [{"type": "output_text", "text": "I look."}]
    assert (use["call_id"], use["name"], use["arguments"]) == (long_id[-64:], "ls_me", '{"a')
    assert told["call_id"] == use["call_id"]


async def test_a_picture_goes_as_an_input_image() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    body = await sent(
        RESPONSES,
        Responses(),
        {"role": "user", "content": [{"type": "text", "text": "What?"}, url]},
    )
    image = {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"}
    assert body["input"][0]["content"][1] == image


async def test_reasoning_goes_back_encrypted_and_in_front() -> None:
    reply = {
        "reasoning": "Hm.",
        "text": "I look.",
        "tool_calls": [{"id": "a", "name": "terminal", "arguments": {"n": 1}}],
        "chunk_chars": 2,
    }
    async with scripted(responses, begun_with(reply)) as (model, server):
        events = await ask(model)
        message = events[-1]
        assert isinstance(message, ModelMessage)
        await ask(model, request(USER, assistant_message(message), result("a")))
    shown = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    assert shown == message.reasoning == "Hm."
    assert message.reasoning_details == (THOUGHT,)
    body = server.bodies[-1]
    _, thought, text, use, _ = body["input"]
    assert thought == THOUGHT
    assert (text["content"][0]["text"], use["call_id"]) == ("I look.", "a")


async def test_reasoning_that_the_api_did_not_encrypt_stays_here() -> None:
    bare = {name: value for name, value in THOUGHT.items() if name != "encrypted_content"}
    said = {"role": "assistant", "content": "Hi", "reasoning_details": [bare]}
    body = await sent(RESPONSES, Responses(), USER, said, USER)
    assert [item["type"] for item in body["input"]] == ["message"] * 3


def event(kind: str, **fields: object) -> str:
    return json.dumps({"type": f"response.{kind}", **fields})


def item(number: int, kind: str = "output_item.done", **fields: object) -> str:
    return event(kind, output_index=number, item=fields)


def said(number: int, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": content}


DONE = event("completed", response={"status": "completed", "model": "m"})


async def test_reasoning_between_other_items_keeps_its_place() -> None:
    parts = [THOUGHT, said(1, "First."), {**THOUGHT, "id": "rs_2"}, said(2, "Last.")]
    lines = [item(number, **part) for number, part in enumerate(parts)]
    async with scripted(responses, answers({"raw": [*lines, DONE]})) as (model, server):
        events = await ask(model)
        message = events[-1]
        assert isinstance(message, ModelMessage)
        await ask(model, request(USER, assistant_message(message), USER))
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert message.text == shown == "First.Last."
    assert message.reasoning == "Hm.\n\nHm."
    body = server.bodies[-1]
    assert body["input"] == [ASKED, *parts, ASKED]


async def test_what_the_cache_did_is_counted() -> None:
    usage = {
        "input_tokens": 1300,
        "output_tokens": 34,
        "input_tokens_details": {"cached_tokens": 1000},
        "output_tokens_details": {"reasoning_tokens": 12},
    }
    async with scripted(responses, answers({"text": "Hi", "usage": usage})) as (model, _):
        message = await answer(model)
    assert message.usage == Usage(1300, 34, 1000, 12)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_why_it_stopped_is_said_in_common_words(finish: str) -> None:
    async with scripted(responses, answers({"text": "Hi", "finish_reason": finish})) as (model, _):
        assert (await answer(model)).finish_reason == finish


BEGUN = item(0, "output_item.added", type="message", content=[])


@pytest.mark.parametrize(
    "lines",
    [
        [BEGUN, event("output_text.delta", output_index=0, delta="Hi")],
        [item(0, **said(0, "Hi"))],
        [item(0, type="function_call", call_id="a", arguments="{}"), DONE],
        [event("output_text.delta", output_index=3, delta="Hi"), DONE],
        ["{"],
    ],
    ids=["no end", "no end of the response", "a call without a name", "no item", "not JSON"],
)
async def test_a_broken_stream_is_a_cut_one(lines: list[str]) -> None:
    async with scripted(responses, answers({"raw": lines})) as (model, _):
        assert (await failure(model)).kind is ModelErrorKind.CUT_STREAM


async def test_an_answer_that_is_not_streamed_is_read() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "terminal", "arguments": '{ "n":1 }'}
    told = {"object": "response", "model": "m", "status": "completed", "error": None}
    body = {**told, "output": [said(0, "Hi"), call]}
    async with scripted(responses, answers({"error": body})) as (model, _):
        message = await answer(model)
    assert (message.text, message.model, message.finish_reason) == ("Hi", "m", "tool_calls")
    assert message.tool_calls == (ToolCall("a", "terminal", '{ "n":1 }'),)


async def test_a_longer_conversation_begins_with_the_same_bytes() -> None:
    said: list[dict[str, Any]] = [SYSTEM]
    async with scripted(responses, STEPS) as (model, server):
        for turn in range(6):
            said.append(USER)
            await ask(model, request(*said))
            said += [called(f"a{turn}", f"b{turn}"), result(f"a{turn}"), result(f"b{turn}")]
            await ask(model, request(*said))
            said.append({"role": "assistant", "content": f"½ {turn}"})
    bodies = [exchange.body for exchange in server.requests]
    assert len(bodies) == 12
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))


async def test_a_model_thinks_as_hard_as_it_is_told() -> None:
    body = await sent(RESPONSES, Responses("high"), USER)
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}


REFUSED = [
    ("Encrypted content is not supported with this model.", {"include"}),
    ("Unsupported parameter: 'max_output_tokens'", {"max_output_tokens"}),
    ("Unsupported parameter: 'reasoning.effort' is not supported with this model", {"reasoning"}),
]


@pytest.mark.parametrize(("message", "left_out"), REFUSED)
async def test_what_a_model_does_not_take_is_left_out_from_then_on(
    message: str, left_out: set[str]
) -> None:
    rejected = {"status": 400, "error": {"error": {"message": message}}}
    async with (
        fake_model(answers(rejected, {"text": "Hi"}), RESPONSES) as server,
        Provider(endpoint_at(server.url), Responses("low"), NO_RETRIES) as model,
    ):
        await ask(model)
        await ask(model)
    first, *others = server.bodies
    assert [set(first) - set(body) for body in others] == [left_out] * 2


async def test_reasoning_that_cannot_be_decrypted_is_left_out() -> None:
    message = "The encrypted content gAAA... could not be verified."
    rejected = {"status": 400, "error": {"error": {"message": message}}}
    before = {"role": "assistant", "content": "Hi", "reasoning_details": [THOUGHT]}
    async with scripted(responses, answers(rejected, {"text": "Hi"})) as (model, server):
        await ask(model, request(USER, before, USER))
    first, second = ([one["type"] for one in body["input"]] for body in server.bodies)
    assert first == ["message", "reasoning", "message", "message"]
    assert second == ["message"] * 3
