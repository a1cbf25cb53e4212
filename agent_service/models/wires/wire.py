"""What the wire formats of providers differ in, and what their readers share."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.model import ModelMessage, ModelRequest, encoded
from agent_service.records.model_errors import ModelError

Json = Mapping[str, Any]
Corrections = Sequence[tuple[str, str]]
"""Fields of the dialect, each with the words of an error that asks to turn it off."""

READ = "hermes.read"
"""The extension of an HTTP response that reads more of its body, and returns nothing at the end.

It spares each piece of an answer the four generators of httpx2's own way.
"""


class MalformedChunk(Exception):
    """A part of an answer that cannot be one."""


class Dialect(Struct, frozen=True):
    """Where a model departs from the request that most take; learned from what it rejects."""

    max_tokens: bool = True
    """Whether the cap of an answer has this name, and not max_completion_tokens."""
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

    def corrected(self, wire: "Wire", error: ModelError) -> "Dialect | None":
        """The dialect that a rejected request asks for; None if it is not that."""
        words = error.detail.lower()
        for field, told in wire.corrections if error.status in {400, 422} else ():
            if getattr(self, field) and all(word in words for word in told.split()):
                return replace(self, **{field: False})
        return None


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

    key_header: str
    """Where the key goes: Authorization or X-Api-Key."""
    path: str
    """What follows the base URL."""
    corrections: Corrections

    def headers(self) -> Mapping[str, str]:
        """Headers of every request."""
        ...

    def body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        """Return the body of a request."""
        ...

    def reading(self) -> Reading:
        """Begin to read an answer."""
        ...


_MOST_TOKENS = 10**12
_MOST_USD = 10**6
"""Of one call; a database keeps sums of such in 64 bits."""
_MICRO = 1_000_000


def tokens(value: object) -> int:
    """A number of tokens."""
    # A boolean is an int, too, and no record of the wire takes one.
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value <= _MOST_TOKENS else 0


def micro_usd(value: object) -> int | None:
    """A price in US dollars, in millionths of one; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value * _MICRO) if 0 <= value <= _MOST_USD else None


def text_of(value: object) -> str:
    """A text; an empty one for anything else."""
    return value if isinstance(value, str) else ""


MARKED_MESSAGES = 3
"""The last messages that carry a cache mark; with the system prompt's the four that are allowed."""


def cache_control(ttl: str) -> Mapping[str, str]:
    """Return a mark that keeps what is before it for 5m or 1h."""
    return {"type": "ephemeral", **({"ttl": ttl} if ttl != "5m" else {})}
