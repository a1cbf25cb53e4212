"""Prometheus metrics and readiness checks of a process.

Each service declares its metrics in a class, and `create` registers them with a `Meter`:

    class TurnMetrics(Metrics, frozen=True):
        turns: Counter = counter("hermes_turns_total", "Turns ended.", "platform", "outcome")
"""

import platform
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from msgspec import Struct, field
from msgspec.structs import fields
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Buckets for what people wait for."""
LONG_SECONDS = (0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""Buckets for background work."""

Checks = Mapping[str, Callable[[], str]]
"""Readiness checks by name; each returns a problem, or empty."""

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class Meter:
    """Makes the metrics of one registry by our common rules."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        """Make a counter; the name ends in `_total`."""
        if not name.endswith("_total"):
            raise ValueError(f"the counter {name} must end in _total")
        return Counter(_checked(name, labels), meaning, labels, registry=self._registry)

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(_checked(name, labels), meaning, labels, registry=self._registry)

    def histogram(
        self, name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = SECONDS
    ) -> Histogram:
        """Make a histogram, in base units."""
        return Histogram(
            _checked(name, labels), meaning, labels, registry=self._registry, buckets=buckets
        )


class _Declared(Struct, frozen=True):
    make: Callable[[Meter], Any]


def counter(name: str, meaning: str, *labels: str, known: Iterable[str] = ()) -> Any:
    """Declare a field's counter; `known` label values start at 0, so the first event shows."""

    def make(meter: Meter) -> Counter:
        made = meter.counter(name, meaning, *labels)
        for value in known:
            made.labels(value)
        return made

    return _Declared(make)


def gauge(name: str, meaning: str, *labels: str) -> Any:
    """Declare a field's gauge."""
    return _Declared(lambda meter: meter.gauge(name, meaning, *labels))


def histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = SECONDS) -> Any:
    """Declare a field's histogram."""
    return _Declared(lambda meter: meter.histogram(name, meaning, *labels, buckets=buckets))


def nested(kind: "type[Metrics]") -> Any:
    """Declare a field with the metrics of a part."""
    return _Declared(kind.create)


class Metrics(Struct, frozen=True, kw_only=True):
    """Metrics of a service, each a field declared by its default."""

    @classmethod
    def create(cls, meter: Meter, **others: Any) -> Self:
        """Register the metrics; `others` are the fields that are not declared."""
        declared = {each.name: each.default for each in fields(cls)}
        made = {
            name: default.make(meter)
            for name, default in declared.items()
            if isinstance(default, _Declared)
        }
        return cls(**made, **others)


class LabelValues:
    """Bounds the values of a label from outside: the first ones get their own series."""

    OTHER = "other"

    def __init__(self, most: int, known: Callable[[str], bool] = bool) -> None:
        """At most `most` values that `known` accepts."""
        self._most = most
        self._known = known
        self._seen: set[str] = set()

    def bound(self, value: str) -> str:
        """Return the value as a label: itself, or `other`."""
        if value in self._seen:
            return value
        if len(self._seen) >= self._most or not self._known(value):
            return self.OTHER
        self._seen.add(value)
        return value


def redactions(meter: Meter) -> Callable[[int], None]:
    """Return a counter of the secrets that a service replaces."""
    return meter.counter("hermes_secrets_redacted_total", "Secrets replaced in text.").inc


class CallMetrics(Struct, frozen=True):
    """The gRPC calls of one side: a `CallObserver`."""

    begun: Counter
    seconds: Histogram
    # Cached by labels: finding a series with `labels` takes twice as long as the rest.
    _begun: dict[str, Counter] = field(default_factory=dict[str, Counter])
    _seconds: dict[tuple[str, str], Histogram] = field(
        default_factory=dict[tuple[str, str], Histogram]
    )

    def started(self, method: str) -> None:
        if (series := self._begun.get(method)) is None:
            series = self._begun[method] = self.begun.labels(method.removeprefix("/"))
        series.inc()

    def observe(self, method: str, status: str, seconds: float) -> None:
        if (series := self._seconds.get((method, status))) is None:
            series = self.seconds.labels(method.removeprefix("/"), status)
            self._seconds[method, status] = series
        series.observe(seconds)


class GrpcMetrics(Struct, frozen=True):
    """The calls that a process serves and makes."""

    server: CallMetrics
    client: CallMetrics

    @classmethod
    def create(cls, meter: Meter) -> Self:
        return cls(
            server=CallMetrics(
                meter.counter("grpc_server_started_total", "Calls received.", "grpc_method"),
                meter.histogram(
                    "grpc_server_call_duration_seconds",
                    "Time from receiving a call to its end.",
                    "grpc_method",
                    "grpc_status",
                ),
            ),
            client=CallMetrics(
                meter.counter("grpc_client_started_total", "Calls made.", "grpc_method"),
                meter.histogram(
                    "grpc_client_attempt_duration_seconds",
                    "Time from making a call to its end.",
                    "grpc_method",
                    "grpc_status",
                ),
            ),
        )


def process_registry(version: str) -> CollectorRegistry:
    """Return a registry with the process's version, memory, processor time and files."""
    registry = CollectorRegistry()
    info = Meter(registry).gauge(
        "hermes_build_info", "Always 1; the labels say what runs.", "version", "python"
    )
    info.labels(version, platform.python_version()).set(1)
    ProcessCollector(registry=registry)
    return registry


class Exposition(Collector):
    """All metrics of a process; services that share it get the label `service`."""

    def __init__(
        self, process: CollectorRegistry, services: Mapping[str, CollectorRegistry] | None = None
    ) -> None:
        self.process = process
        self.services = services or {}

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for metric in self.process.collect():
            metric.samples = _without_created(metric.samples)
            families[metric.name] = metric
        for service, registry in self.services.items():
            for metric in registry.collect():
                label = {"service": service}
                samples = [
                    Sample(s.name, {**label, **s.labels}, s.value, s.timestamp, s.exemplar)
                    for s in _without_created(metric.samples)
                ]
                family = families.setdefault(metric.name, metric)
                family.samples = samples if family is metric else [*family.samples, *samples]
        return families.values()


def _without_created(samples: list[Sample]) -> list[Sample]:
    """Drop the `_created` samples, which Prometheus does not need."""
    return [sample for sample in samples if not sample.name.endswith("_created")]


def _checked(name: str, labels: tuple[str, ...]) -> str:
    """Check the rules: snake case, and no label with a value for each user, session or sandbox."""
    for each in (name, *labels):
        if not _NAME.fullmatch(each):
            raise ValueError(f"{each} is not snake case")
    for label in labels:
        if label == "id" or label.endswith("_id"):
            raise ValueError(f"{name}: the label {label} would have a series for each id")
    return name
