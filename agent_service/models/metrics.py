"""What calls of models tell Prometheus."""

from collections.abc import Callable
from typing import Self

from msgspec import Struct
from prometheus_client import Counter, Histogram

from agent_service.models.base import ModelMessage, ModelRequest
from agent_service.models.errors import ModelErrorKind
from services.metrics import LabelValues, Meter

_MOST_MODELS = 20
"""With names of their own; each makes some sixty series."""
_MOST_PROVIDERS = 10
_MODEL = ("gen_ai_request_model", "gen_ai_provider_name")
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)
"""Both are the bounds that OpenTelemetry's conventions for generative models give."""


class ModelMetrics(Struct, frozen=True):
    """Model calls, and what they take."""

    tokens: Histogram
    seconds: Histogram
    first_chunk_seconds: Histogram
    cost_usd: Counter
    cache_read: Counter
    errors: Counter
    retries: Counter
    models: LabelValues
    providers: LabelValues

    @classmethod
    def create(cls, meter: Meter, is_known: Callable[[str], bool]) -> Self:
        """The metrics, registered; models that are not known share one name."""
        metrics = cls(
            tokens=meter.histogram(
                "gen_ai_client_token_usage",
                "Tokens of a model call.",
                *("gen_ai_token_type", *_MODEL),
                buckets=_TOKENS,
            ),
            seconds=meter.histogram(
                "gen_ai_client_operation_duration_seconds",
                "Time until a model's answer was whole, with the attempts before it.",
                *_MODEL,
                buckets=_SECONDS,
            ),
            first_chunk_seconds=meter.histogram(
                "gen_ai_client_operation_time_to_first_chunk_seconds",
                "Time until something of a model's answer was there.",
                *_MODEL,
                buckets=_SECONDS,
            ),
            cost_usd=meter.counter(
                "hermes_llm_cost_usd_total", "Cost in US dollars.", "provider", "model", "purpose"
            ),
            cache_read=meter.counter(
                "hermes_prompt_cache_read_tokens_total", "Prompt tokens that were cached."
            ),
            errors=meter.counter(
                "hermes_llm_errors_total", "Attempts of model calls that failed.", "kind"
            ),
            retries=meter.counter(
                "hermes_llm_retries_total", "Attempts that followed one that failed."
            ),
            models=LabelValues(_MOST_MODELS, is_known),
            providers=LabelValues(_MOST_PROVIDERS),
        )
        for kind in ModelErrorKind:
            metrics.errors.labels(kind)
        return metrics

    def paid(self, request: ModelRequest, message: ModelMessage) -> None:
        """Count what an answer took, whether it says anything or not."""
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

    def answered(self, message: ModelMessage, first_chunk_s: float, seconds: float) -> None:
        """Time an answer."""
        named = self._named(message)
        self.first_chunk_seconds.labels(*named).observe(first_chunk_s)
        self.seconds.labels(*named).observe(seconds)

    def _named(self, message: ModelMessage) -> tuple[str, str]:
        return self.models.of(message.model), self.providers.of(message.provider)
