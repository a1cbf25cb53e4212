"""The wire format of OpenAI's chat completions API, which most endpoints speak."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent_service.models.assembly import Assembly
from agent_service.models.base import ModelRequest, encoded
from agent_service.models.errors import ModelError
from agent_service.models.wire import Dialect

_DETAILS = b'"reasoning_details"'
_NATIVE_BLOCKS = (b'"type":"thinking"', b'"type":"redacted_thinking"', b'"type":"reasoning"')
"""Reasoning as Anthropic and OpenAI themselves write it, in the bytes of our own encoding."""


@dataclass(frozen=True, slots=True)
class AppIdentity:
    """How this deployment presents itself to OpenRouter."""

    title: str = "Hermes"
    referer: str = ""


class ChatCompletions:
    """Requests and answers of chat completions, as a provider takes them."""

    sdk = "openai"
    path = "/chat/completions"

    def __init__(self, provider: str, identity: AppIdentity | None = None) -> None:
        self._provider = provider
        self._identity = identity or AppIdentity()

    def headers(self) -> Mapping[str, str]:
        """What OpenRouter wants to know of who calls it; nobody else is told."""
        if self._provider != "openrouter":
            return {}
        told = {
            "HTTP-Referer": self._identity.referer,
            "X-OpenRouter-Title": self._identity.title,
        }
        return {name: value for name, value in told.items() if value}

    def body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        """Return the request with its messages as they are."""
        fields = [b'{"model":', encoded(request.model), b',"stream":true,"messages":[']
        fields += [self._messages(request), b"]"]
        if request.tools:
            fields += [b',"tools":', request.tools, b',"tool_choice":"auto"']
        fields += [b',"%b":%d' % (dialect.max_tokens_field.encode(), request.max_tokens)]
        if dialect.stream_options:
            fields.append(b',"stream_options":{"include_usage":true}')
        return b"".join([*fields, b"}"])

    def corrected(self, dialect: Dialect, error: ModelError) -> Dialect | None:
        """Leave out or rename what the model does not take."""
        if error.status not in {400, 422}:
            return None
        if dialect.max_tokens_field == "max_tokens" and "max_completion_tokens" in error.detail:
            return replace(dialect, max_tokens_field="max_completion_tokens")
        if dialect.stream_options and "stream_options" in error.detail:
            return replace(dialect, stream_options=False)
        return None

    def reading(self) -> Assembly:
        """Begin to read an answer."""
        return Assembly()

    def _messages(self, request: ModelRequest) -> bytes:
        joined = b",".join(request.messages)
        if _DETAILS not in joined:
            return joined
        if self._provider == "openrouter" and not any(mark in joined for mark in _NATIVE_BLOCKS):
            return joined
        # Other endpoints reject fields that they do not know, and a session may have moved.
        return b",".join(
            self._without_foreign_details(message) if _DETAILS in message else message
            for message in request.messages
        )

    def _without_foreign_details(self, message: bytes) -> bytes:
        if self._provider == "openrouter" and not any(mark in message for mark in _NATIVE_BLOCKS):
            return message
        fields: dict[str, Any] = json.loads(message)
        details = fields.pop("reasoning_details", None) or ()
        kept = [one for one in details if str(one.get("type", "")).startswith("reasoning.")]
        if kept and self._provider == "openrouter":
            fields["reasoning_details"] = kept
        return encoded(fields)
