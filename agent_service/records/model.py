"""The model seam: the loop's requests to a model, and the events it gets back."""

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from agent_service.records.arguments import is_object
from agent_service.records.events import Notice, PromptProgress, ReasoningDelta, TextDelta
from agent_service.records.model_errors import ModelErrorKind
from agent_service.records.requests import Switched
from agent_service.records.usage import Usage

DEFAULT_MAX_TOKENS = 16_384
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
"""The names of tools that all providers accept."""
_ATTACHED = b',"attached":'
"""The last field of a message; in a text, its quotes would be escaped."""


class Purpose(StrEnum):
    """Why a model is called."""

    TURN = "turn"
    JOB = "job"
    SUBAGENT = "subagent"
    """A task that another turn delegated."""
    REVIEW = "review"
    """A review of a conversation."""
    COMPRESSION = "compression"
    TITLE = "title"
    CURATOR = "curator"
    """A plan for a skill library."""
    TOOL = "tool"
    """A tool's own question."""


class ModelRequest(Struct, frozen=True):
    """One model call, of parts that were `encoded` when they were created.

    Each message is a JSON object and `tools` a JSON array (empty: none), in the shape of the chat
    completions API; an adapter for another API translates them. Messages are sent as they are:
    re-encoding a long conversation for every call would cost too much CPU, and what a provider has
    cached must not change by a byte.
    """

    model: str
    messages: Sequence[bytes]
    tools: bytes = b""
    max_tokens: int = DEFAULT_MAX_TOKENS
    route: str = ""
    """Of the model chain; empty means the configured endpoint."""
    temperature: float | None = None
    """None leaves it to the model."""
    purpose: Purpose = Purpose.TURN
    """The purpose that usage is counted under."""


class ModelRetry(Struct, frozen=True):
    """An attempt failed; all deltas so far are void, and the next one starts after `delay_s`."""

    attempt: int
    reason: ModelErrorKind
    message: str
    delay_s: float


class ToolCall(Struct, frozen=True, omit_defaults=True):
    """A tool call as the model wrote it; `arguments_json` may be malformed."""

    id: str
    name: str
    arguments_json: str
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The provider's own fields, such as a signature, to be sent back unchanged."""


class ModelMessage(Struct, frozen=True):
    """The whole answer; always the last event of a call.

    `usage` is None if the provider reported none. `reasoning_details` are the provider's own
    reasoning blocks, to be sent back unchanged.
    """

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage | None
    finish_reason: str
    model: str
    provider: str
    reasoning_details: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The provider's other fields, to be sent back unchanged."""
    source: str = ""
    """Who may get the provider's own fields back."""
    logprobs: str = ""
    """A JSON list of the generated tokens, each with token, logprob and id; empty if unknown."""

    @property
    def used(self) -> Usage:
        return Usage(call_count=1) + (self.usage or Usage())


def usage_of(answers: Iterable[ModelMessage]) -> Usage:
    """Sum up the usage of several model calls."""
    return sum((answer.used for answer in answers), Usage())


class ModelWasted(Struct, frozen=True):
    """An empty answer that is still charged; its deltas are void.

    Another attempt or a `ModelError` follows.
    """

    message: ModelMessage


ModelEvent = (
    TextDelta
    | ReasoningDelta
    | PromptProgress
    | ModelRetry
    | ModelWasted
    | Notice
    | Switched
    | ModelMessage
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


def sent_call(call: ToolCall) -> dict[str, Any]:
    """Return a call as it goes back to a model: valid, however the model wrote it."""
    arguments = call.arguments_json
    if not is_object(arguments):
        # The result that follows explains what was wrong.
        arguments = json.dumps({"malformed": arguments}, ensure_ascii=False)
    name = _NOT_IN_NAMES.sub("_", call.name)[:_LONGEST_NAME] or "_"
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant_message(message: ModelMessage) -> dict[str, Any]:
    """Return the answer as a stored message; `restore_attached` prepares it for a request."""
    entry: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.tool_calls:
        entry["content"] = message.text or None
        entry["tool_calls"] = [sent_call(call) for call in message.tool_calls]
    own = dict(message.extra)
    if message.reasoning_details:
        own["reasoning_details"] = list(message.reasoning_details)
    calls = [dict(call.extra) for call in message.tool_calls]
    calls = calls if any(calls) else []
    if own or calls:
        entry["attached"] = {"to": message.source, "calls": calls, "message": own}
    return entry


class _Attached(Struct, frozen=True):
    """The provider's own fields of a message: those of its calls, and what else is to be added."""

    to: str
    calls: list[dict[str, Any]]
    message: Raw


_ATTACHED_FIELDS = Decoder(_Attached)


def restore_attached(message: bytes, source: str) -> bytes:
    """Return a message with the provider's own fields if they came from `source`, else without.

    Long texts are copied as they are: parsing them for each request would take too long.
    """
    at = message.find(_ATTACHED)
    if at < 0:
        return message
    attached = _ATTACHED_FIELDS.decode(message[at + len(_ATTACHED) : -1])
    message = message[:at] + b"}"
    if attached.to != source:
        return message
    if attached.calls:
        entry: dict[str, Any] = json.loads(message)
        for call, extra in zip(entry["tool_calls"], attached.calls, strict=True):
            call.update(extra)
        message = encoded(entry)
    own = bytes(attached.message)[1:-1]
    return message[:-1] + b"," + own + b"}" if own else message


class Unwatched:
    """A model call without watchers, and its results however it ends."""

    def __init__(self, model: Model, request: ModelRequest) -> None:
        self.said = ""
        """The text of the current attempt."""
        self.paid: list[ModelMessage] = []
        """Answers that are charged, including empty ones."""
        self._model = model
        self._request = request

    async def answer(self) -> ModelMessage:
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
