"""The differences between wire formats, and what their readers share."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.model import ModelMessage, ModelRequest, encoded
from agent_service.records.model_errors import ModelError
from services.validation import object_of

Json = Mapping[str, Any]
Corrections = Sequence[tuple[str, str]]
"""Fields of the dialect, each with the words of an error that turns it off."""


class MalformedChunk(Exception):
    """A chunk is malformed."""


class Dialect(Struct, frozen=True):
    """A model's deviations from the common request, learned from what it rejects."""

    max_tokens: bool = True
    """Whether the output cap is named so, instead of max_completion_tokens."""
    stream_options: bool = True
    adaptive_thinking: bool = True
    encrypted_reasoning: bool = True
    output_cap: bool = True
    effort: bool = True
    summary: bool = True
    progress: bool = False
    """Whether it tells how much of the prompt it has read."""
    temperature: bool = True
    attached: bool = True
    bare_answers: bool = True
    """Whether it accepts answers of others, which have no `reasoning_content` of its own."""
    streams: bool = True
    """Whether it streams answers that have probabilities."""
    logprobs: bool = True
    token_ids: bool = True
    unsigned_calls: bool = True
    """Whether it accepts calls of others, which it has not signed."""

    def temperature_of(self, request: ModelRequest) -> bytes:
        """The temperature field of a request, the same in all APIs."""
        if request.temperature is None or not self.temperature:
            return b""
        return b',"temperature":%b' % encoded(request.temperature)

    def corrected(self, wire: "Wire", error: ModelError) -> "Dialect | None":
        """The dialect to retry a rejected request with; None if the error has another cause."""
        words = error.detail.lower()
        for field, told in wire.corrections if error.status in {400, 422} else ():
            if getattr(self, field) and all(word in words for word in told.split()):
                return replace(self, **{field: False})
        return None


class Reading(Protocol):
    """One answer while it arrives."""

    finish_reason: str
    """Why the model stopped; empty before that, and `error` never counts."""

    def add(self, chunk: Json) -> tuple[str, str]:
        """Take in an event; return its text and reasoning; raises `MalformedChunk`."""
        ...

    def failure(self, chunk: Json) -> object:
        """The error that an event reports; None if it reports none."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the answer is complete."""
        ...

    def message(self, model: str, provider: str) -> ModelMessage:
        """Return the answer so far; the arguments are defaults; raises `MalformedChunk`."""
        ...


class Wire(Protocol):
    """How requests and answers of one kind of API look."""

    key_header: str
    path: str
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
"""For one call, since a database keeps sums in 64 bits."""
_MICRO = 1_000_000


def tokens(value: object) -> int:
    """A number of tokens; 0 for anything else."""
    # In Python a boolean is an int too.
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value <= _MOST_TOKENS else 0


def micro_usd(value: object) -> int | None:
    """A USD price in micro-USD; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value * _MICRO) if 0 <= value <= _MOST_USD else None


def text_of(value: object) -> str:
    """A text; empty for anything else."""
    return value if isinstance(value, str) else ""


def objects_of(value: object) -> list[Json]:
    """The objects of an array, or the object itself; empty for anything else."""
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [cast("Json", item) for item in items if isinstance(item, dict)]


def well_formed(text: str) -> str:
    """Join surrogate pairs that a server escaped one by one; replace lone ones."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_MINIMAX_STATUSES = {1002: 429, 1004: 401, 1008: 402, 1039: 413, 2013: 400, 2049: 401}
"""HTTP statuses that MiniMax means by the codes in its successful responses."""
_ERROR_TEXTS = ("message", "detail", "msg", "error_msg", "error_message", "error_description")


def reported_error(chunk: Json) -> object:
    """The object that reports an error in any of the usual places; None if this is no error."""
    if chunk.get("error") or chunk.get("errors"):
        return chunk
    if told := minimax_error(chunk):
        return told
    if "choices" in chunk:
        choices = objects_of(chunk["choices"])
        return next((choice for choice in choices if choice.get("error")), None)
    return chunk if any(text_of(chunk.get(name)) for name in _ERROR_TEXTS) else None


def minimax_error(chunk: Json) -> Json:
    """The error in MiniMax's form, as others report it; empty if there is none."""
    told = object_of(chunk.get("base_resp"))
    if not (code := told.get("status_code")):
        return {}
    return {"message": told.get("status_msg") or "", "code": _MINIMAX_STATUSES.get(code, code)}


def error_text(error: Json) -> str:
    """The words of an error object."""
    return next((str(error[name]) for name in _ERROR_TEXTS if error.get(name)), "")


MARKED_MESSAGES = 3
"""Messages with a cache mark; with the system prompt's they are the four allowed."""


def cache_control(ttl: str) -> Mapping[str, str]:
    """A mark that caches everything before it for 5m or 1h."""
    return {"type": "ephemeral", **({"ttl": ttl} if ttl != "5m" else {})}
