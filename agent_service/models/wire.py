"""What the wire formats of providers differ in; everything else of a call is theirs together."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent_service.models.base import ModelMessage, ModelRequest, encoded
from agent_service.models.errors import ModelError

Json = Mapping[str, Any]


class MalformedChunk(Exception):
    """A part of an answer that cannot be one."""


class Dialect(Struct, frozen=True):
    """Where a model departs from the request that most take; learned from what it rejects."""

    max_tokens_field: str = "max_tokens"
    stream_options: bool = True
    adaptive_thinking: bool = True
    encrypted_reasoning: bool = True
    output_cap: bool = True
    effort: bool = True
    """Whether it is told how hard to think."""
    summary: bool = True
    temperature: bool = True
    """Whether it is told how freely to choose words."""

    def temperature_of(self, request: ModelRequest) -> bytes:
        """How freely the request wants words to be chosen, as all APIs write it."""
        if request.temperature is None or not self.temperature:
            return b""
        return b',"temperature":%b' % encoded(request.temperature)

    def without_temperature(self, error: ModelError) -> "Dialect | None":
        """The same without it, where an error says that the model does not take it."""
        if not self.temperature or "temperature" not in error.detail:
            return None
        return replace(self, temperature=False)


class Reading(Protocol):
    """One answer in the making."""

    finish_reason: str
    """Empty until the model has said why it stopped; `error` is no reason to stop."""

    def add(self, chunk: Json) -> tuple[str, str]:
        """Take in an event; return the text and the reasoning that it adds.

        Raises `MalformedChunk`.
        """
        ...

    def failure(self, chunk: Json) -> object:
        """The error that an event reports, as an object with `code` and `message`; else None."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing more is to come."""
        ...

    def message(self, model: str, provider: str) -> ModelMessage:
        """Return the answer as it stands; raises `MalformedChunk`.

        The arguments fill in what the stream left out.
        """
        ...


class Wire(Protocol):
    """How requests and answers of one kind of API look."""

    sdk: str
    """The package that carries them: openai or anthropic."""
    path: str
    """What follows the base URL."""

    def headers(self) -> Mapping[str, str]:
        """Headers of every request."""
        ...

    def body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        """Return the body of a request."""
        ...

    def corrected(self, dialect: Dialect, error: ModelError) -> Dialect | None:
        """Return the dialect that a rejected request asks for, or None if it is not that."""
        ...

    def reading(self) -> Reading:
        """Begin to read an answer."""
        ...
