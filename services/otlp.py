"""Traces that leave by OTLP: OpenTelemetry's SDK behind the seam of `services.tracing`."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from services.config_models import TracingConfig
from services.errors import FailedPrecondition
from services.redact import Redactor
from services.tracing import ERROR, NONE, Attributes, Kind, Span, Value, traced_by

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as SdkSpan
    from opentelemetry.trace import Tracer as SdkTracer

EXPORT_TIMEOUT_S = 3.0
"""How long one batch may take, and so about how long the end of a process waits for the last."""

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class Resource(Struct, frozen=True):
    """The process that spans are from."""

    service: str
    version: str
    instance: str

    @property
    def attributes(self) -> dict[str, str]:
        """The same in OpenTelemetry's names."""
        return {
            "service.name": self.service,
            "service.version": self.version,
            "service.instance.id": self.instance,
        }


@asynccontextmanager
async def exporting(
    config: TracingConfig, redactor: Redactor, about: Resource
) -> AsyncGenerator[None]:
    """Trace what is done inside and send it to the configured endpoint, if there is one.

    Raises FailedPrecondition where the SDK is not installed.
    """
    if not config.endpoint:
        yield
        return
    # In a thread: importing the SDK takes a fifth of a second.
    provider = await asyncio.to_thread(_provider, config, about)
    tracer = OtlpTracer(provider.get_tracer("hermes", about.version), redactor, text=config.text)
    try:
        with traced_by(tracer):
            yield
    finally:
        await asyncio.to_thread(provider.shutdown)


def _provider(config: TracingConfig, about: Resource) -> "TracerProvider":
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk import resources
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        raise FailedPrecondition(
            "services.tracing.endpoint is set, and OpenTelemetry is not installed: "
            "pip install 'hermes-services[tracing]'"
        ) from error
    sampler = ParentBased(TraceIdRatioBased(config.sample_ratio))
    resource = resources.Resource.create(about.attributes)
    provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
    headers = None if config.headers is None else config.headers.get_secret_value()
    exporter = OTLPSpanExporter(config.endpoint, headers=headers, timeout=EXPORT_TIMEOUT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class OtlpTracer:
    """A tracer of `services.tracing` whose spans are OpenTelemetry's."""

    def __init__(self, tracer: "SdkTracer", redactor: Redactor, *, text: bool) -> None:
        """`text` says whether spans have what people and models say."""
        self._tracer = tracer
        self._redactor = redactor
        self._text = text

    def start(self, name: str, kind: Kind, parent: Span | str, attributes: Attributes) -> Span:
        """Begin a span."""
        from opentelemetry.trace import SpanKind

        started = self._tracer.start_span(
            self._redactor.redact(name), _context(parent), SpanKind[kind.name]
        )
        span = OtlpSpan(started, self._redactor, text=self._text)
        span.set(attributes)
        return span


class OtlpSpan:
    """A span of OpenTelemetry's, which no secret gets into."""

    def __init__(self, span: "SdkSpan", redactor: Redactor, *, text: bool) -> None:
        self.sdk = span
        self._redactor = redactor
        self._text = text

    @property
    def traceparent(self) -> str:
        """Names it as W3C has it."""
        here = self.sdk.get_span_context()
        return f"00-{here.trace_id:032x}-{here.span_id:016x}-{here.trace_flags:02x}"

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        if attributes and self.sdk.is_recording():
            self.sdk.set_attributes(self._clean(attributes))

    def set_text(self, said: Callable[[], Attributes]) -> None:
        """Add what was said, where the settings want it."""
        if self._text and self.sdk.is_recording():
            self.set(said())

    def happened(self, name: str, attributes: Attributes = NONE) -> None:
        """Add an event."""
        if self.sdk.is_recording():
            self.sdk.add_event(name, self._clean(attributes))

    def failed(self, kind: str) -> None:
        """Mark it as failed."""
        from opentelemetry.trace import StatusCode

        self.set({ERROR: kind})
        self.sdk.set_status(StatusCode.ERROR)

    def end(self) -> None:
        """Hand it to the exporter."""
        self.sdk.end()

    def _clean(self, attributes: Attributes) -> dict[str, Value]:
        return {name: self._redacted(value) for name, value in attributes.items()}

    def _redacted(self, value: Value) -> Value:
        if isinstance(value, str):
            return self._redactor.redact(value)
        if isinstance(value, bool | int | float):
            return value
        return [self._redactor.redact(part) for part in value]


def _context(parent: Span | str) -> "Context":
    """The context of a span below another one; that of a root where the other is nothing."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if isinstance(parent, OtlpSpan):
        return set_span_in_context(parent.sdk, Context())
    named = _TRACEPARENT.fullmatch(parent) if isinstance(parent, str) else None
    if named is None:
        return Context()
    trace_id, span_id, flags = (int(part, 16) for part in named.groups())
    came = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return set_span_in_context(NonRecordingSpan(came), Context())
