"""Adds redaction, prices, metrics and traces to a model."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Self

from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import Counter, Histogram

from agent_service.models.catalog import Catalog
from agent_service.models.costs import count_usage
from agent_service.models.redaction import RedactedAttempt, clean_message
from agent_service.models.spans import ModelSpan, model_span
from agent_service.records.events import ReasoningDelta, TextDelta
from agent_service.records.model import (
    Model,
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    ModelWasted,
    Purpose,
)
from agent_service.records.model_errors import ModelError, ModelErrorKind
from agent_service.records.usage import Usage
from services.clock import Clock
from services.redaction.redactor import Redactor
from services.telemetry.metrics import LabelValues, Meter, Metrics, counter, histogram

_MOST_MODELS = 20
"""Models with their own label; each adds about sixty time series."""
_MOST_PROVIDERS = 10
_WINDOW = re.compile(r"context (?:length|size|window|limit)\D{0,30}?(\d{3,9})(?!\d)", re.IGNORECASE)
"""The context that an error names: "maximum context length is 4096 tokens"."""
_MODEL = ("gen_ai_request_model", "gen_ai_provider_name")
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)
"""Bucket bounds from OpenTelemetry's conventions for generative AI."""


class ModelMetrics(Metrics, frozen=True):
    """Metrics of model calls."""

    models: LabelValues
    providers: LabelValues
    tokens: Histogram = histogram(
        "gen_ai_client_token_usage",
        "Tokens of a model call.",
        *("gen_ai_token_type", *_MODEL),
        buckets=_TOKENS,
    )
    seconds: Histogram = histogram(
        "gen_ai_client_operation_duration_seconds",
        "Time until a model's answer was whole, with the attempts before it.",
        *_MODEL,
        buckets=_SECONDS,
    )
    first_chunk_seconds: Histogram = histogram(
        "gen_ai_client_operation_time_to_first_chunk_seconds",
        "Time until something of a model's answer was there.",
        *_MODEL,
        buckets=_SECONDS,
    )
    cost_usd: Counter = counter(
        "hermes_llm_cost_usd_total", "Cost in US dollars.", "provider", "model", "purpose"
    )
    cache_read: Counter = counter(
        "hermes_prompt_cache_read_tokens_total", "Prompt tokens that were cached."
    )
    errors: Counter = counter(
        "hermes_llm_errors_total",
        "Attempts of model calls that failed.",
        "kind",
        known=ModelErrorKind,
    )
    retries: Counter = counter(
        "hermes_llm_retries_total", "Attempts that followed one that failed."
    )

    @classmethod
    def make(cls, meter: Meter, is_known: Callable[[str], bool]) -> Self:
        """Register the metrics; unknown models share one label."""
        models = LabelValues(_MOST_MODELS, is_known)
        return cls.create(meter, models=models, providers=LabelValues(_MOST_PROVIDERS))

    def count_use(self, request: ModelRequest, message: ModelMessage) -> None:
        usage = message.usage
        if usage is None:
            return
        named = self._named(message)
        self.tokens.labels("input", *named).observe(usage.prompt_tokens)
        self.tokens.labels("output", *named).observe(usage.completion_tokens)
        self.cache_read.inc(usage.cached_tokens)
        if usage.cost_micro_usd:
            model, provider = named
            self.cost_usd.labels(provider, model, request.purpose).inc(usage.cost_micro_usd / 1e6)

    def time_answer(self, message: ModelMessage, first_chunk_s: float, seconds: float) -> None:
        named = self._named(message)
        self.first_chunk_seconds.labels(*named).observe(first_chunk_s)
        self.seconds.labels(*named).observe(seconds)

    def _named(self, message: ModelMessage) -> tuple[str, str]:
        return self.models.bound(message.model), self.providers.bound(message.provider)


class InstrumentedModel(Struct, frozen=True):
    """A Model with redacted answers, limited in length, priced, counted, timed and traced."""

    inner: Model
    redactor: Redactor
    catalog: Catalog
    metrics: ModelMetrics
    clock: Clock

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        began = self.clock.monotonic()
        max_tokens = self.catalog.longest_answer(request.model, request.max_tokens)
        request = replace(request, max_tokens=max_tokens)
        with model_span(request) as span:
            async with (
                self.inner.stream(request) as events,
                aclosing(self._watched(request, events, span, began)) as watched,
            ):
                yield watched

    async def _watched(
        self,
        request: ModelRequest,
        events: AsyncIterator[ModelEvent],
        span: ModelSpan,
        began: float,
    ) -> AsyncGenerator[ModelEvent]:
        said, first_chunk_s = RedactedAttempt(self.redactor), None
        try:
            async for event in events:
                match event:
                    case TextDelta() | ReasoningDelta():
                        if first_chunk_s is None:
                            first_chunk_s = self.clock.monotonic() - began
                            span.note_first_chunk(first_chunk_s)
                        for delta in said.feed(event):
                            yield delta
                    case ModelRetry(reason=kind):
                        said = RedactedAttempt(self.redactor)
                        self.metrics.errors.labels(kind).inc()
                        self.metrics.retries.inc()
                        span.note_retry(kind)
                        yield event
                    case ModelWasted(message):
                        said = RedactedAttempt(self.redactor)
                        yield ModelWasted(self._finish(request, message))
                    case ModelMessage():
                        for delta in said.finish():
                            yield delta
                        seconds = self.clock.monotonic() - began
                        answer = self._finish(request, event)
                        span.note_answer(answer)
                        self.metrics.time_answer(answer, first_chunk_s or seconds, seconds)
                        yield answer
                    case _:
                        yield event
        except ModelError as error:
            self.metrics.errors.labels(error.kind).inc()
            self._learn(request, error)
            raise

    def _learn(self, request: ModelRequest, error: ModelError) -> None:
        told = _WINDOW.search(error.detail)
        if told and error.kind is ModelErrorKind.CONTEXT_OVERFLOW:
            self.catalog.learn_window(request.model, int(told[1]))

    def interrupted(self, request: ModelRequest, said: str) -> ModelMessage:
        broken_off = ModelMessage(said, "", (), None, "interrupted", request.model, "")
        return self._finish(request, broken_off)

    def count_call(self, model: str, provider: str, usage: Usage) -> Usage:
        made = ModelMessage("", "", (), usage, "stop", model, provider)
        return self._finish(ModelRequest(model, (), purpose=Purpose.TOOL), made).used

    def _finish(self, request: ModelRequest, message: ModelMessage) -> ModelMessage:
        message = clean_message(message, self.redactor)
        message = count_usage(message, (*request.messages, request.tools))
        assert message.usage is not None, "it has been counted"
        name = self.catalog.answered(request.model, message)
        cost = self.catalog.cost_of(name, message.usage)
        usage = replace(message.usage, cost_micro_usd=cost)
        message = replace(message, model=name, usage=usage)
        self.metrics.count_use(request, message)
        return message
