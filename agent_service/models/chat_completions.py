"""The wire format of OpenAI's chat completions API, which most endpoints speak."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from agent_service.models.assembly import Assembly
from agent_service.models.base import ModelRequest, encoded
from agent_service.models.errors import ModelError
from agent_service.models.wire import Dialect

_DETAILS = b'"reasoning_details"'


class ChatCompletions:
    """Requests and answers of chat completions, as a provider takes them."""

    sdk = "openai"
    path = "/chat/completions"

    def __init__(self, effort: str = "") -> None:
        """Take how hard to think, if at all: low, medium or high."""
        self._effort = effort

    def headers(self) -> Mapping[str, str]:
        """Nothing beyond what the SDK sends."""
        return {}

    def body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        """Return the request with its messages as they are."""
        fields = [b'{"model":', encoded(request.model), b',"stream":true,"messages":[']
        fields += [b",".join(self._messages(request)), b"]"]
        if request.tools:
            fields += [b',"tools":', request.tools, b',"tool_choice":"auto"']
        fields += [b',"%b":%d' % (dialect.max_tokens_field.encode(), request.max_tokens)]
        if dialect.stream_options:
            fields.append(b',"stream_options":{"include_usage":true}')
        return b"".join([*fields, dialect.temperature_of(request), self._extras(dialect), b"}"])

    def corrected(self, dialect: Dialect, error: ModelError) -> Dialect | None:
        """Leave out or rename what the model does not take."""
        if error.status not in {400, 422}:
            return None
        if dialect.max_tokens_field == "max_tokens" and "max_completion_tokens" in error.detail:
            return replace(dialect, max_tokens_field="max_completion_tokens")
        if dialect.stream_options and "stream_options" in error.detail:
            return replace(dialect, stream_options=False)
        if self._effort and dialect.effort and "reasoning" in error.detail:
            return replace(dialect, effort=False)
        return dialect.without_temperature(error)

    def reading(self) -> Assembly:
        """Begin to read an answer."""
        return Assembly()

    def _messages(self, request: ModelRequest) -> Sequence[bytes]:
        """The messages, without what only other providers understand: a session may have moved."""
        if not any(_DETAILS in message for message in request.messages):
            return request.messages
        return [
            self._without_foreign_details(message) if _DETAILS in message else message
            for message in request.messages
        ]

    def _extras(self, dialect: Dialect) -> bytes:
        """Further fields of a request."""
        if not self._effort or not dialect.effort:
            return b""
        return b',"reasoning_effort":"%b"' % self._effort.encode()

    def _own_details(self, details: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The reasoning that goes back; endpoints reject what they do not know."""
        return []

    def _without_foreign_details(self, message: bytes) -> bytes:
        fields: dict[str, Any] = json.loads(message)
        details: Sequence[Mapping[str, Any]] = fields.get("reasoning_details") or ()
        kept = self._own_details(details)
        if kept and len(kept) == len(details):
            return message
        fields.pop("reasoning_details", None)
        if kept:
            fields["reasoning_details"] = kept
        return encoded(fields)
