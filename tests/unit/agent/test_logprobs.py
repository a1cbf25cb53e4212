"""The probabilities of tokens, as llama.cpp, vLLM and others send them."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import SecretStr

from agent_service.models.endpoints import Endpoint
from agent_service.models.provider import Provider
from agent_service.models.redaction import clean_message
from agent_service.models.wires.chat_completions import ChatCompletions
from agent_service.records.model import ModelMessage, ModelRequest, encoded
from agent_service.records.model_errors import RetryPolicy
from services.redaction.redactor import Redactor
from tests.fakes.model import FakeModel, answers, fake_model

TOOLS = b'[{"type":"function","function":{"name":"look","parameters":{}}}]'
REQUEST = ModelRequest("scripted", [encoded({"role": "user", "content": "Hello"})], TOOLS)


def _token(token: str, logprob: float, **more: Any) -> dict[str, Any]:
    alternative = {"token": token, "logprob": logprob, "bytes": [*token.encode()]}
    return {**alternative, "top_logprobs": [alternative | more], **more}


def _chunk(delta: Any, tokens: Sequence[dict[str, Any]], **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "logprobs": {"content": tokens}, **choice}]}


VLLM = [
    {
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None}],
        "prompt_token_ids": [1, 2, 3],
    },
    _chunk({"reasoning": "Hm"}, [_token("Hm", -0.5)], token_ids=[9]),
    _chunk({"content": "Hi"}, [_token("H", -0.25), _token("i", -1.0)], token_ids=[7, 8]),
    # A chunk of a call that vLLM has not parsed yet has no delta.
    _chunk({}, [_token("<end>", -9999.0)], token_ids=[2], finish_reason="stop"),
]
LLAMA = {
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Hi"},
            "logprobs": {"content": [_token("Hi", -0.125, id=42)]},
        }
    ],
    "object": "chat.completion",
}


def _refusal(message: str) -> dict[str, Any]:
    return {"status": 400, "error": {"error": {"code": 400, "message": message}}}


async def _ask(server: FakeModel, *, logprobs: bool = True) -> ModelMessage:
    endpoint = Endpoint(server.url, SecretStr("key"), "scripted", "custom", "test", "KEY")
    wire = ChatCompletions(logprobs=logprobs)
    async with (
        Provider(endpoint, wire, RetryPolicy(max_retries=0)) as model,
        model.stream(REQUEST) as events,
    ):
        *_, last = [event async for event in events]
    assert isinstance(last, ModelMessage)
    return last


async def test_vllm_tells_ids_beside_the_tokens() -> None:
    raw = [*map(json.dumps, VLLM), "[DONE]"]
    async with fake_model(answers({"raw": raw})) as server:
        message = await _ask(server)
        [body] = server.bodies
    assert (body["logprobs"], body["top_logprobs"], body["return_token_ids"]) == (True, 1, True)
    assert json.loads(message.logprobs) == [
        {"token": "Hm", "logprob": -0.5, "id": 9},
        {"token": "H", "logprob": -0.25, "id": 7},
        {"token": "i", "logprob": -1.0, "id": 8},
        {"token": "<end>", "logprob": -9999.0, "id": 2},
    ]


async def test_llama_cpp_tells_them_with_tools_only_where_it_does_not_stream() -> None:
    refused = _refusal("logprobs is not supported with tools + stream")
    async with fake_model(answers(refused, {"error": LLAMA})) as server:
        message = await _ask(server)
        first, second = server.bodies
    assert (first["stream"], second["stream"], second["logprobs"]) == (True, False, True)
    assert "stream_options" not in second
    assert message.text == "Hi"
    assert json.loads(message.logprobs) == [{"token": "Hi", "logprob": -0.125, "id": 42}]


async def test_a_server_that_knows_no_ids_or_probabilities_answers_without() -> None:
    script = answers(
        _refusal("Unrecognized request argument supplied: return_token_ids"),
        _refusal("'logprobs' is not supported with this model."),
        {"text": "Hi"},
    )
    async with fake_model(script) as server:
        assert (await _ask(server)).logprobs == ""
        asked = [("logprobs" in body, "return_token_ids" in body) for body in server.bodies]
    assert asked == [(True, True), (True, False), (False, False)]


async def test_they_are_asked_for_only_where_somebody_wants_them() -> None:
    async with fake_model(answers({"text": "Hi"})) as server:
        await _ask(server, logprobs=False)
        assert "logprobs" not in server.bodies[0]


def test_tokens_of_a_secret_are_not_kept() -> None:
    told, secret = '[{"token":"hunter2"}]', "hunter2hunter2"
    message = ModelMessage(f"it is {secret}", "", (), None, "stop", "m", "p", logprobs=told)
    assert clean_message(message, Redactor([secret])).logprobs == ""
    assert clean_message(message, Redactor()).logprobs == told
