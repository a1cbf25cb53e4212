"""Answers and errors of servers and proxies that take the API loosely, over a real connection."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from agent_service.records.model import ModelMessage
from agent_service.records.model_errors import ModelErrorKind as Kind
from tests.contract.models import answer, ask, chat_completions, failure, scripted, text_of
from tests.fakes.model import answers

WHY = "Quantum flux too high"
HI: Any = {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}
END: Any = {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]}
WHOLE: Any = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}


def chunk(document: object) -> str:
    return f"data: {json.dumps(document)}\n\n"


def labelled(body: object, content_type: str) -> Mapping[str, Any]:
    return answers({"error": body, "headers": {"content-type": content_type}})


def stream(body: str) -> Mapping[str, Any]:
    return labelled(body, "text/event-stream")


@pytest.mark.parametrize("finish", [None, ""])
async def test_an_answer_is_whole_where_the_server_says_that_it_is_done(finish: object) -> None:
    last: Any = {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": finish}]}
    raw = [json.dumps(HI), "", json.dumps(last), "[DONE] "]
    async with scripted(chat_completions, answers({"raw": raw})) as (model, _):
        message = await answer(model)
    assert (message.text, message.finish_reason) == ("Hi", "stop")


async def test_a_document_that_is_whole_needs_no_reason_to_end() -> None:
    body: Any = {"choices": [{"index": 0, "message": {"content": "Hi"}}]}
    async with scripted(chat_completions, labelled(body, "application/json")) as (model, _):
        assert (await answer(model)).text == "Hi"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (chunk(HI) + chunk(END), "application/json"),
        (chunk(HI) + chunk(END), "text/html; charset=utf-8"),
        (": waiting\n\n" + chunk(HI) + chunk(END), ""),
        ("\ufeff" + chunk(HI) + chunk(END), "text/event-stream"),
        (f"{json.dumps(HI)}\n{json.dumps(END)}\n", "application/x-ndjson"),
        (json.dumps([HI, END]), "application/json"),
        ("\n\n" + json.dumps(WHOLE, indent=2), "text/event-stream"),
        (json.dumps(WHOLE), "text/plain"),
    ],
)
async def test_what_is_labelled_wrongly_is_read_as_what_it_is(body: str, content_type: str) -> None:
    async with scripted(chat_completions, labelled(body, content_type)) as (model, _):
        assert (await answer(model)).text == "Hi"


@pytest.mark.parametrize(
    "body",
    [
        chunk({"object": "error", "message": WHY, "type": "BadRequestError", "code": 400}),
        chunk({"error": {"error": {"message": WHY}}}),
        chunk({"error": json.dumps({"error": {"message": WHY}})}),
        chunk({"error": True, "message": WHY}),
        chunk({"errors": [{"message": WHY}]}),
        chunk({"detail": WHY}),
        chunk([{"error": {"message": WHY}}]),
        chunk({"fault": {"faultstring": WHY}}),
        chunk({"choices": [{"delta": {}, "finish_reason": "error", "error": {"message": WHY}}]}),
        f'error: {{"code":400,"message":"{WHY}"}}\n\ndata: [DONE]\n\n',
        f"error: {WHY}\n\n",
        f'event: error\ndata: {{"message":"{WHY}"}}\n\n',
        f"event: error\ndata: {WHY}\n\n",
        f"data: {WHY}\n\n",
        json.dumps({"error": {"message": WHY}}),
        json.dumps([{"error": {"message": WHY}}]),
        json.dumps({"fault": {"faultstring": WHY}}),
        chunk(HI) + json.dumps({"error": {"message": WHY}}),
    ],
)
async def test_the_reason_of_an_error_is_found_wherever_it_stands(body: str) -> None:
    async with scripted(chat_completions, stream(body)) as (model, _):
        assert WHY in str(await failure(model))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": WHY, "type": "BadRequestError", "code": 400}, Kind.BAD_REQUEST),
        ({"message": WHY, "type": "invalid_request_error", "code": None}, Kind.BAD_REQUEST),
        ({"message": WHY, "type": "rate_limit_error"}, Kind.RATE_LIMIT),
        ({"message": WHY, "code": "invalid_api_key"}, Kind.AUTH),
        ({"message": WHY, "status": 401}, Kind.AUTH),
        ({"message": WHY, "code": 429}, Kind.RATE_LIMIT),
        ({"message": "prompt is too long", "type": "invalid_request_error"}, Kind.CONTEXT_OVERFLOW),
        ({"message": WHY}, Kind.OVERLOADED),
    ],
)
async def test_an_error_inside_a_stream_has_the_kind_that_it_names(
    error: Mapping[str, Any], kind: Kind
) -> None:
    for body in (chunk({"error": error}), f"event: error\ndata: {json.dumps(error)}\n\n"):
        async with scripted(chat_completions, stream(body)) as (model, _):
            assert (await failure(model)).kind is kind


async def test_reasoning_in_the_text_is_shown_as_reasoning() -> None:
    reply = {"text": "<think>\nHm, a greeting.</think>\n\nHello!", "chunk_chars": 3}
    async with scripted(chat_completions, answers(reply)) as (model, _):
        *deltas, message = await ask(model)
    assert isinstance(message, ModelMessage)
    assert (message.text, message.reasoning) == ("Hello!", "Hm, a greeting.")
    assert text_of(deltas) == "Hello!"


async def test_reasoning_that_the_template_begins_is_shown_as_such_the_second_time() -> None:
    reply = {"text": "Hm, a greeting.</think>Hello!", "chunk_chars": 3, "chunk_delay_s": 0.001}
    script = answers(reply, reply, {"text": "Hello!", "chunk_chars": 3})
    async with scripted(chat_completions, script) as (model, _):
        first, second, without = await ask(model), await ask(model), await ask(model)
    assert text_of(without) == "Hello!"
    assert text_of(first) != "Hello!", "nobody could know it"
    assert text_of(second) == "Hello!"
    for *_, message in (first, second):
        assert isinstance(message, ModelMessage)
        assert (message.text, message.reasoning) == ("Hello!", "Hm, a greeting.")


async def test_an_answer_of_reasoning_alone_is_empty() -> None:
    reply = {"text": "<think>Hm, a greet", "finish_reason": "length"}
    async with scripted(chat_completions, answers(reply)) as (model, _):
        assert "raise model.max_tokens" in str(await failure(model))
