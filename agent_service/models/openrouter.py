"""OpenRouter: chat completions with cache marks and a choice of providers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from agent_service.models.wires.chat_completions import ChatCompletions
from agent_service.models.wires.wire import MARKED_MESSAGES, Dialect, cache_control
from agent_service.records.model import ModelRequest, encoded

FLASH_MODEL = "google/gemini-3.7-flash"
"""Small and fast with a large window, for simple tasks."""

_MARKED_MODELS = ("anthropic/", "~anthropic/")
"""Prefixes of models that cache only marked content."""
_ROLES = frozenset({"user", "assistant"})
_SYSTEM = frozenset({"system"})
_RESULT = b'{"role":"tool"'


class AppIdentity(Struct, frozen=True):
    """How this deployment identifies itself to OpenRouter."""

    title: str = "Hermes"
    referer: str = ""


class OpenRouter(ChatCompletions):
    """The wire format of OpenRouter's chat completions."""

    def __init__(
        self,
        identity: AppIdentity | None = None,
        effort: str = "",
        cache_ttl: str = "5m",
        only: Sequence[str] = (),
        *,
        logprobs: bool = False,
    ) -> None:
        """`only` limits the providers, by OpenRouter's names; empty allows all."""
        super().__init__(effort, logprobs=logprobs)
        self._identity = identity or AppIdentity()
        self._control = cache_control(cache_ttl)
        self._only = b',"provider":{"only":%b}' % encoded(list(only)) if only else b""

    def headers(self) -> Mapping[str, str]:
        told = {"HTTP-Referer": self._identity.referer, "X-OpenRouter-Title": self._identity.title}
        return {name: value for name, value in told.items() if value}

    def _messages(self, request: ModelRequest, dialect: Dialect) -> Sequence[bytes]:
        messages = super()._messages(request, dialect)
        if not request.model.startswith(_MARKED_MODELS):
            return messages
        marked, left = list(messages), MARKED_MESSAGES
        for number in reversed(range(1, len(marked))):
            if not left:
                break
            if found := self._marked(marked[number], _ROLES):
                marked[number] = found
                left -= 1
        marked[0] = self._marked(marked[0], _SYSTEM) or marked[0]
        return marked

    def _marked(self, message: bytes, roles: frozenset[str]) -> bytes | None:
        """The message with a mark at the end of its text; None if it cannot carry one."""
        if message.startswith(_RESULT):
            return None
        fields: dict[str, Any] = json.loads(message)
        if fields.get("role") not in roles:
            return None
        content = fields.get("content")
        if isinstance(content, str) and content.strip():
            text = {"type": "text", "text": content, "cache_control": self._control}
            return encoded({**fields, "content": [text]})
        parts = list(cast("Sequence[Mapping[str, Any]]", content or ()))
        if not parts or parts[-1].get("type") != "text":
            return None
        parts[-1] = {**parts[-1], "cache_control": self._control}
        return encoded({**fields, "content": parts})

    def _extras(self, dialect: Dialect) -> bytes:
        reasoning = b""
        if self._effort and dialect.effort:
            reasoning = b',"reasoning":{"effort":"%b"}' % self._effort.encode()
        return reasoning + self._only
