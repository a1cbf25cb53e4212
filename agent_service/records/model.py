"""The model seam: what the turn loop asks a model for, and the events that it gets back."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from agent_service.records.events import Notice, ReasoningDelta, TextDelta
from agent_service.records.model_errors import ModelErrorKind
from agent_service.records.requests import Switched
from agent_service.records.usage import Usage

DEFAULT_MAX_TOKENS = 16_384


class Purpose(StrEnum):
    """What a model is asked for."""

    TURN = "turn"
    """To answer somebody."""
    JOB = "job"
    """To do a scheduled job."""
    SUBAGENT = "subagent"
    """To do a task that another turn has handed over."""
    REVIEW = "review"
    """To look back at a conversation."""
    COMPRESSION = "compression"
    """For notes of a long conversation."""
    TITLE = "title"
    """To name a session."""
    CURATOR = "curator"
    """For what is to be done with a library of skills."""
    TOOL = "tool"
    """A question that a tool has."""


class ModelRequest(Struct, frozen=True):
    """One model call, of parts that were `encoded` when they came into being.

    Each message is a JSON object and `tools` a JSON array (empty: none), in the shape of the
    chat completions API; an adapter for another API translates them. Messages go out as
    they are: encoding a long conversation again for every call would cost more CPU than the
    rest of the call, and what a provider has cached must not change by a byte.
    """

    model: str
    messages: Sequence[bytes]
    tools: bytes = b""
    max_tokens: int = DEFAULT_MAX_TOKENS
    route: str = ""
    """Of the chain of models; empty is the configured endpoint."""
    temperature: float | None = None
    """How freely to choose words, where the model can be told; None leaves it to the model."""
    purpose: Purpose = Purpose.TURN
    """As which it is counted."""


class ModelRetry(Struct, frozen=True):
    """An attempt failed and another follows: every delta of this call so far is void.

    `attempt` is the one that failed; the next starts after `delay_s`.
    """

    attempt: int
    reason: ModelErrorKind
    message: str
    delay_s: float


class ToolCall(Struct, frozen=True):
    """A tool call as the model wrote it; `arguments_json` may be malformed."""

    id: str
    name: str
    arguments_json: str


class ModelMessage(Struct, frozen=True):
    """The whole answer; always the last event of a call.

    `usage` is None where the provider reported none. `reasoning_details` are the
    provider's own reasoning blocks, to be sent back unchanged.
    """

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage | None
    finish_reason: str
    model: str
    provider: str
    reasoning_details: tuple[Mapping[str, Any], ...] = ()

    @property
    def used(self) -> Usage:
        """What the call used, as sums count it."""
        return Usage(call_count=1) + (self.usage or Usage())


def usage_of(answers: Iterable[ModelMessage]) -> Usage:
    """What several model calls used together."""
    return sum((answer.used for answer in answers), Usage())


class ModelWasted(Struct, frozen=True):
    """An answer that says nothing, and is paid for all the same: every delta of it is void.

    Another attempt follows, or `ModelError`.
    """

    message: ModelMessage


ModelEvent = (
    TextDelta | ReasoningDelta | ModelRetry | ModelWasted | Notice | Switched | ModelMessage
)


class Model(Protocol):
    """A language model that streams its answer."""

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Call the model; the iterator ends with one `ModelMessage` or raises `ModelError`.

        Leaving the context, also by cancellation, closes the connection at once.
        """
        ...


def encoded(value: object) -> bytes:
    """Return JSON as it goes to a provider."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace")


def assistant_message(message: ModelMessage) -> dict[str, Any]:
    """Return the answer as a message of the next request."""
    entry: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.tool_calls:
        entry["content"] = message.text or None
        entry["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_json},
            }
            for call in message.tool_calls
        ]
    if message.reasoning_details:
        entry["reasoning_details"] = list(message.reasoning_details)
    return entry


class Unwatched:
    """A model call that nobody watches, and what has come of it, however it ends."""

    def __init__(self, model: Model, request: ModelRequest) -> None:
        self.said = ""
        """By the attempt that has not ended."""
        self.paid: list[ModelMessage] = []
        """Answers that have to be paid for, also those that say nothing."""
        self._model = model
        self._request = request

    async def answer(self) -> ModelMessage:
        """The whole answer; raises what the model's stream raises."""
        async with self._model.stream(self._request) as events:
            async for event in events:
                match event:
                    case TextDelta(text) | ReasoningDelta(text):
                        self.said += text
                    case ModelRetry():
                        self.said = ""
                    case ModelWasted(message):
                        self.paid.append(message)
                    case ModelMessage():
                        self.paid.append(event)
                        return event
                    case _:
                        pass
        raise AssertionError("a model call ends with its message or raises")
