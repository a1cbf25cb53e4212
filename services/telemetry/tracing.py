"""Traces of work across tasks and services.

With `services.tracing.endpoint`, OpenTelemetry's SDK exports the spans; otherwise all of this costs
a look at a context variable. A trace begins with a message, a run of a job, or a resumed turn.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING

import grpc
from msgspec import Struct
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span as ApiSpan
from opentelemetry.trace import SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from services.errors import FailedPrecondition
from services.redaction.redactor import Redactor
from services.telemetry.config import TracingConfig

Metadata = tuple[tuple[str, str | bytes], ...]


if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

TRACEPARENT = "traceparent"
"""W3C's name of the metadata with the caller's span."""
METHOD = "rpc.method"
STATUS = "rpc.response.status_code"
ERROR = "error.type"
CANCELLED = "hermes.cancelled"
"""Marks work stopped from outside, which is not a failure."""
EXPORT_TIMEOUT_S = 3.0
"""The timeout of one batch, and so roughly of the last one at exit."""

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]

_NONE: Attributes = MappingProxyType({})
_SYSTEM = {"rpc.system.name": "grpc"}
_W3C = TraceContextTextMapPropagator()
# The caller's mistakes are not the service's errors.
_SERVERS_FAULTS = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)


class Tracing(Struct, frozen=True):
    """Where a process sends its spans; `text` allows texts of people and models in them."""

    tracer: Tracer
    redactor: Redactor
    text: bool = False


class Span(Struct, frozen=True):
    """An OpenTelemetry span that keeps secrets out."""

    api: ApiSpan
    tracing: Tracing | None

    @property
    def traceparent(self) -> str:
        """Its name for other processes; empty without tracing."""
        carrier: dict[str, str] = {}
        if self.tracing is not None:
            _W3C.inject(carrier, set_span_in_context(self.api, Context()))
        return carrier.get(TRACEPARENT, "")

    def set(self, attributes: Attributes) -> None:
        """Set attributes; secrets are redacted."""
        if attributes and self.tracing is not None and self.api.is_recording():
            self.api.set_attributes(_clean(self.tracing.redactor, attributes))

    def set_text(self, said: Callable[[], Attributes]) -> None:
        """Set attributes with texts of people or models, if tracing allows them."""
        if self.tracing is not None and self.tracing.text and self.api.is_recording():
            self.set(said())

    def happened(self, name: str, attributes: Attributes = _NONE) -> None:
        if self.tracing is not None and self.api.is_recording():
            self.api.add_event(name, _clean(self.tracing.redactor, attributes))

    def failed(self, kind: str) -> None:
        """Mark it as failed, with the kind in one word."""
        self.set({ERROR: kind})
        self.api.set_status(StatusCode.ERROR)


NOTHING = Span(trace.INVALID_SPAN, None)
"""The span of untraced work."""
_HERE: ContextVar[Span] = ContextVar("span", default=NOTHING)


@asynccontextmanager
async def exporting(
    config: TracingConfig, redactor: Redactor, resource: Mapping[str, str]
) -> AsyncGenerator[None]:
    """Trace the work inside to the endpoint, if any; FailedPrecondition without the SDK."""
    if not config.endpoint:
        yield
        return
    # In a thread: importing the SDK takes a fifth of a second.
    provider = await asyncio.to_thread(_provider, config, resource)
    try:
        with traced_by(Tracing(provider.get_tracer("hermes"), redactor, config.text)):
            yield
    finally:
        await asyncio.to_thread(provider.shutdown)


def _provider(config: TracingConfig, resource: Mapping[str, str]) -> "TracerProvider":
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        raise FailedPrecondition(
            "services.tracing.endpoint is set, and OpenTelemetry is not installed: "
            "pip install 'hermes-services[tracing]'"
        ) from error
    sampler = ParentBased(TraceIdRatioBased(config.sample_ratio))
    provider = TracerProvider(sampler, Resource.create(dict(resource)), shutdown_on_exit=False)
    headers = None if config.headers is None else config.headers.get_secret_value()
    exporter = OTLPSpanExporter(config.endpoint, headers=headers, timeout=EXPORT_TIMEOUT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


@contextmanager
def traced_by(tracing: Tracing) -> Generator[None]:
    """Trace the work inside, including tasks started there."""
    token = _HERE.set(Span(trace.INVALID_SPAN, tracing))
    try:
        yield
    finally:
        _HERE.reset(token)


def traceparent() -> str:
    """Return the name of the current span; empty without tracing."""
    return _HERE.get().traceparent


@contextmanager
def span(
    name: str,
    attributes: Attributes = _NONE,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: str = "",
    expected: tuple[type[Exception], ...] = (),
) -> Generator[Span]:
    """Trace the work inside, below `parent` or the current span; `expected` errors are fine."""
    here = _HERE.get()
    if here.tracing is None:
        yield NOTHING
        return
    started = _start(here.tracing, name, kind, parent or here, attributes)
    token = _HERE.set(started)
    try:
        yield started
    except (asyncio.CancelledError, GeneratorExit):
        started.set({CANCELLED: True})
        raise
    except BaseException as error:
        if not isinstance(error, expected):
            started.failed(type(error).__name__)
        raise
    finally:
        _HERE.reset(token)
        started.api.end()


@contextmanager
def serving(method: str, metadata: Metadata) -> Generator[Span]:
    """Trace a served call if its caller is traced; `end_served` records the result."""
    came = ""
    if _HERE.get().tracing is not None:
        named = (value for key, value in metadata if key == TRACEPARENT)
        came = next((value for value in named if isinstance(value, str)), "")
    if not came:
        yield NOTHING
        return
    with span(method[1:], _rpc_attributes(method), kind=SpanKind.SERVER, parent=came) as served:
        yield served


def end_served(served: Span, status: str) -> None:
    """Record the status of a served call."""
    if served is not NOTHING:
        served.set({STATUS: status})
        if status in _SERVERS_FAULTS:
            served.failed(status)


def calling(method: str) -> Span:
    """Start the span of an outgoing call, for `end_call`; NOTHING outside of any work."""
    here = _HERE.get()
    if here.tracing is None or here.api is trace.INVALID_SPAN:
        return NOTHING
    return _start(here.tracing, method[1:], SpanKind.CLIENT, here, _rpc_attributes(method))


def as_metadata(called: Span) -> Metadata:
    """Return metadata that names the span to the service."""
    return ((TRACEPARENT, called.traceparent),) if called is not NOTHING else ()


def end_call(called: Span, code: grpc.StatusCode) -> None:
    """Record the status of an outgoing call."""
    called.set({STATUS: code.name})
    # A client that has read enough of a stream cancels it, which is no failure.
    if code not in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
        called.failed(code.name)
    called.api.end()


def _start(
    tracing: Tracing, name: str, kind: SpanKind, parent: Span | str, attributes: Attributes
) -> Span:
    if isinstance(parent, Span):
        context = set_span_in_context(parent.api, Context())
    else:
        context = _W3C.extract({TRACEPARENT: parent}, Context())
    api = tracing.tracer.start_span(tracing.redactor.redact(name), context, kind)
    started = Span(api, tracing)
    started.set(attributes)
    return started


def _clean(redactor: Redactor, attributes: Attributes) -> dict[str, Value]:
    def clean(value: Value) -> Value:
        if isinstance(value, str):
            return redactor.redact(value)
        if isinstance(value, bool | int | float):
            return value
        return [redactor.redact(part) for part in value]

    return {name: clean(value) for name, value in attributes.items()}


def _rpc_attributes(method: str) -> Attributes:
    return {**_SYSTEM, METHOD: method[1:]}
