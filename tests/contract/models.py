"""Opening each implementation of the Model seam against a scripted server."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from agent_service.models.endpoints import Endpoint
from agent_service.models.openrouter import OpenRouter
from agent_service.models.provider import Provider
from agent_service.models.wires.chat_completions import ChatCompletions
from agent_service.models.wires.messages import Messages
from agent_service.models.wires.responses import Responses
from agent_service.models.wires.transport import Timeouts
from agent_service.models.wires.wire import Wire
from agent_service.records.events import TextDelta
from agent_service.records.model import Model, ModelEvent, ModelMessage, ModelRequest, encoded
from agent_service.records.model_errors import ModelError, RetryPolicy
from tests.fakes.messages import MESSAGES
from tests.fakes.model import FakeModel, fake_model
from tests.fakes.model_server import Speech
from tests.fakes.responses import RESPONSES

KEY = "sk-secret-0123456789"
NO_RETRIES = RetryPolicy(max_retries=0)
QUICK_RETRIES = RetryPolicy(first_delay_s=0.01, longest_delay_s=0.01)
TOOLS = b'[{"type":"function","function":{"name":"terminal","parameters":{}}}]'

Connect = Callable[[Endpoint, RetryPolicy, Timeouts], AbstractAsyncContextManager[Model]]


def chat_completions(
    endpoint: Endpoint, retries: RetryPolicy, timeouts: Timeouts
) -> AbstractAsyncContextManager[Model]:
    wire = OpenRouter() if endpoint.provider == "openrouter" else ChatCompletions()
    return Provider(endpoint, wire, retries, timeouts)


def messages(
    endpoint: Endpoint, retries: RetryPolicy, timeouts: Timeouts
) -> AbstractAsyncContextManager[Model]:
    return Provider(endpoint, Messages(), retries, timeouts)


def responses(
    endpoint: Endpoint, retries: RetryPolicy, timeouts: Timeouts
) -> AbstractAsyncContextManager[Model]:
    return Provider(endpoint, Responses(), retries, timeouts)


IMPLEMENTATIONS: Mapping[str, Connect] = {
    "chat_completions": chat_completions,
    "messages": messages,
    "responses": responses,
}
SPEECHES: Mapping[Connect, Speech] = {messages: MESSAGES, responses: RESPONSES}
ONLY_CHAT = pytest.mark.parametrize("connect", [chat_completions], ids=["chat_completions"])
"""For what only chat completions can say."""


@asynccontextmanager
async def scripted(
    connect: Connect,
    script: Mapping[str, Any],
    retries: RetryPolicy = NO_RETRIES,
    timeouts: Timeouts | None = None,
) -> AsyncGenerator[tuple[Model, FakeModel]]:
    async with (
        fake_model(script, SPEECHES.get(connect)) as server,
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


SYSTEM = {"role": "system", "content": "Be kind."}
USER = {"role": "user", "content": "Wie spät?"}
STEPS = {"rules": [{"steps": [{"text": "Hi"}] * 3}]}


def begun_with(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The script of a model that says this to `request()`, and a word to all that follows."""
    return {"rules": [{"user": "^Hello", "steps": [reply]}, *STEPS["rules"]]}


def called(*ids: str) -> dict[str, Any]:
    """An answer with calls."""
    calls = [{"id": i, "function": {"name": "terminal", "arguments": '{"n":1}'}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call: str, text: str = "done") -> dict[str, Any]:
    """What came of a call."""
    return {"role": "tool", "tool_call_id": call, "content": text}


async def sent(speech: Speech, wire: Wire, *said: Mapping[str, Any]) -> dict[str, Any]:
    """The body that a conversation goes out as; the server refuses what the API would."""
    async with fake_model(STEPS, speech) as server:
        async with Provider(endpoint_at(server.url), wire, NO_RETRIES) as model:
            await ask(model, request(*said))
        return server.bodies[0]
