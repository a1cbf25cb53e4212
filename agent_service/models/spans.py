"""Trace spans of model calls, with OpenTelemetry's attribute names."""

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry.trace import SpanKind

from agent_service.records.model import ModelMessage, ModelRequest
from agent_service.records.model_errors import ModelErrorKind
from agent_service.records.usage import Usage
from services.telemetry.tracing import ERROR, Attributes, Span, span

OPERATION = "gen_ai.operation.name"
REQUEST_MODEL = "gen_ai.request.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
_PROVIDER = "gen_ai.provider.name"
_RESPONSE_MODEL = "gen_ai.response.model"
_MAX_TOKENS = "gen_ai.request.max_tokens"
_FINISH_REASONS = "gen_ai.response.finish_reasons"
_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
_INPUT = "gen_ai.input.messages"
_OUTPUT = "gen_ai.output.messages"


@contextmanager
def model_span(request: ModelRequest) -> Generator["ModelSpan"]:
    """A span for a model call."""
    about: Attributes = {
        OPERATION: "chat",
        REQUEST_MODEL: request.model,
        _MAX_TOKENS: request.max_tokens,
    }
    with span(f"chat {request.model}", about, kind=SpanKind.CLIENT) as current:
        yield ModelSpan(current, request)


class ModelSpan:
    """A model call in progress."""

    def __init__(self, current: Span, request: ModelRequest) -> None:
        self._current = current
        self._request = request

    def note_first_chunk(self, first_chunk_s: float) -> None:
        self._current.set({_FIRST_CHUNK: first_chunk_s})

    def note_retry(self, reason: ModelErrorKind) -> None:
        self._current.happened("retry", {ERROR: reason})

    def note_answer(self, message: ModelMessage) -> None:
        usage = message.usage or Usage()
        self._current.set(
            {
                _PROVIDER: message.provider,
                _RESPONSE_MODEL: message.model,
                _FINISH_REASONS: [message.finish_reason],
                INPUT_TOKENS: usage.prompt_tokens,
                OUTPUT_TOKENS: usage.completion_tokens,
                CACHED_TOKENS: usage.cached_tokens,
            }
        )
        self._current.set_text(
            lambda: {
                _INPUT: [each.decode() for each in self._request.messages],
                _OUTPUT: [message.text, *(call.arguments_json for call in message.tool_calls)],
            }
        )
