"""What the chat completions adapter does for one provider or another."""

import json
from typing import Any

import pytest
from pydantic import SecretStr

from agent_service.models.endpoints import Endpoint
from agent_service.models.openrouter import AppIdentity, OpenRouter
from agent_service.models.provider import Provider
from agent_service.models.wires.chat_completions import ChatCompletions
from agent_service.records.events import PromptProgress
from agent_service.records.model import ModelMessage, ModelRequest, encoded
from agent_service.records.model_errors import ModelError, RetryPolicy
from tests.fakes.model import answers, fake_model

REQUEST = ModelRequest("scripted", [encoded({"role": "user", "content": "Hello"})])
WANTS_OTHER_NAME = {
    "status": 400,
    "error": {
        "error": {
            "message": "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead."
        }
    },
}
KNOWS_NO_OPTIONS = {
    "status": 422,
    "error": {"detail": "stream_options: extra fields not permitted"},
}
ENDS = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}
REJECTS = {"status": 400, "error": {"error": {"message": "no"}}}


def opened(url: str, provider: str = "custom", identity: AppIdentity | None = None) -> Provider:
    endpoint = Endpoint(url, SecretStr("key"), "scripted", provider, "test", "HERMES_API_KEY")
    wire = OpenRouter(identity) if provider == "openrouter" else ChatCompletions()
    return Provider(endpoint, wire, RetryPolicy(max_retries=0))


async def ask(model: Provider) -> ModelMessage:
    async with model.stream(REQUEST) as events:
        *_, last = [event async for event in events]
    assert isinstance(last, ModelMessage)
    return last


READ = {"total": 4000, "cache": 1000, "processed": 2000, "time_ms": 900}
"""How llama.cpp tells how much of a prompt it has read."""


async def test_llama_cpp_is_asked_how_much_of_the_prompt_it_has_read() -> None:
    chunks = ({"prompt_progress": READ, "choices": [{"delta": {"content": None}}]}, ENDS)
    script = answers({"raw": [*map(json.dumps, chunks), "[DONE]"]}, {"text": "Hi"})
    async with fake_model(script) as server, opened(server.url) as model:
        model.ask_progress()
        async with model.stream(REQUEST) as events:
            told = [event async for event in events]
        assert told[0] == PromptProgress(2000, 4000)
        assert isinstance(told[-1], ModelMessage)
        assert server.bodies[0]["return_progress"] is True


async def test_a_server_that_refuses_to_tell_progress_is_not_asked_again() -> None:
    refused = {"status": 400, "error": {"error": {"message": "Unknown field: return_progress"}}}
    async with fake_model(answers(refused, {"text": "Hi"})) as server, opened(server.url) as model:
        model.ask_progress()
        assert (await ask(model)).text == "Hi"
        assert (await ask(model)).text == "Hi"
        assert ["return_progress" in body for body in server.bodies] == [True, False, False]


async def test_a_model_that_wants_another_name_for_the_cap_gets_it_from_then_on() -> None:
    script = answers(WANTS_OTHER_NAME, {"text": "Hi"})
    async with fake_model(script) as server, opened(server.url) as model:
        assert (await ask(model)).text == "Hi"
        assert (await ask(model)).text == "Hi"
    first, *others = server.bodies
    assert first["max_tokens"] == 16_384
    assert len(others) == 2
    for body in others:
        assert body["max_completion_tokens"] == 16_384
        assert "max_tokens" not in body


async def test_a_server_that_knows_no_stream_options_is_spared_them_from_then_on() -> None:
    script = answers(KNOWS_NO_OPTIONS, {"text": "Hi"})
    async with fake_model(script) as server, opened(server.url) as model:
        await ask(model)
        await ask(model)
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize("error", [WANTS_OTHER_NAME, KNOWS_NO_OPTIONS, REJECTS])
async def test_a_correction_is_tried_once(error: dict[str, Any]) -> None:
    async with fake_model(answers(error)) as server, opened(server.url) as model:
        with pytest.raises(ModelError, match="rejected the request"):
            await ask(model)
    assert len(server.requests) == (1 if error is REJECTS else 2)


async def test_openrouter_is_told_who_calls() -> None:
    identity = AppIdentity(title="Mine", referer="https://mine.example")
    async with fake_model(answers({"text": "Hi"})) as server:
        async with opened(server.url, "openrouter", identity=identity) as model:
            await ask(model)
        async with opened(server.url, "openrouter") as model:
            await ask(model)
        async with opened(server.url) as model:
            await ask(model)
    named, default, other = (request.headers for request in server.requests)
    assert (named["http-referer"], named["x-openrouter-title"]) == ("https://mine.example", "Mine")
    assert default["x-openrouter-title"] == "Hermes"
    assert "http-referer" not in default
    assert "x-openrouter-title" not in other


async def test_a_model_that_cannot_be_told_how_hard_to_think_is_spared_it_from_then_on() -> None:
    rejects = {"status": 400, "error": {"error": {"message": "Unknown: reasoning_effort"}}}
    async with fake_model(answers(rejects, {"text": "Hi"})) as server:
        endpoint = Endpoint(server.url, SecretStr("key"), "scripted", "custom", "test", "KEY")
        async with Provider(endpoint, ChatCompletions("high")) as model:
            await ask(model)
            await ask(model)
    assert [body.get("reasoning_effort") for body in server.bodies] == ["high", None, None]


async def test_a_key_in_the_environment_is_not_sent_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-others")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    async with fake_model(answers({"text": "Hi"})) as server:
        keyless = Endpoint(server.url, SecretStr(""), "scripted", "Ollama", "test", "")
        async with Provider(keyless, ChatCompletions()) as model:
            await ask(model)
    assert "not-for-others" not in " ".join(server.requests[0].headers.values())


async def test_a_local_server_is_not_sought_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with fake_model(answers({"text": "Hi"})) as server, opened(server.url) as model:
        assert (await ask(model)).text == "Hi"
