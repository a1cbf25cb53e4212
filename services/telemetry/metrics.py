"""What a process tells Prometheus and probes, and the port on which it does.

Each service declares its metrics in a class, which `create` makes with a `Meter`:

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
"""Bounds for what a person waits for."""
LONG_SECONDS = (0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""Bounds for work that goes on by itself."""

Checks = Mapping[str, Callable[[], str]]
"""By name, what says why a process is not to be counted on; empty where all is well."""

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class Meter:
    """Makes the metrics of one registry, by the rules that all our metrics follow."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        """Something that only grows; the name ends in `_total`."""
        if not name.endswith("_total"):
            raise ValueError(f"the counter {name} must end in _total")
        return Counter(_checked(name, labels), meaning, labels, registry=self._registry)

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        """Something that goes up and down."""
        return Gauge(_checked(name, labels), meaning, labels, registry=self._registry)

    def histogram(
        self, name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = SECONDS
    ) -> Histogram:
        """How something is distributed, in base units."""
        return Histogram(
            _checked(name, labels), meaning, labels, registry=self._registry, buckets=buckets
        )


class _Declared(Struct, frozen=True):
    """How a metric of a class is made."""

    make: Callable[[Meter], Any]


def counter(name: str, meaning: str, *labels: str, known: Iterable[str] = ()) -> Any:
    """Declare a field's counter; the `known` values of its label are shown before they occur, so
    that the first time is seen as a change.
    """

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
    """Metrics of a service, each of them a field that is declared by its default."""

    @classmethod
    def create(cls, meter: Meter, **others: Any) -> Self:
        """The metrics, registered; `others` are the fields that are not declared."""
        declared = {each.name: each.default for each in fields(cls)}
        made = {
            name: default.make(meter)
            for name, default in declared.items()
            if isinstance(default, _Declared)
        }
        return cls(**made, **others)


class LabelValues:
    """Bounds the values of a label that come from outside: the first ones get their own series."""

    OTHER = "other"

    def __init__(self, most: int, known: Callable[[str], bool] = bool) -> None:
        """Take how many there may be, and which; none is empty."""
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
    """Counts the secrets that a service has replaced in what it stores and shows."""
    return meter.counter("hermes_secrets_redacted_total", "Secrets replaced in text.").inc


class CallMetrics(Struct, frozen=True):
    """The gRPC calls of one side: a `CallObserver`."""

    begun: Counter
    seconds: Histogram
    # The series by their labels: `labels` takes twice as long to find one as the rest takes.
    _begun: dict[str, Counter] = field(default_factory=dict[str, Counter])
    _seconds: dict[tuple[str, str], Histogram] = field(
        default_factory=dict[tuple[str, str], Histogram]
    )

    def started(self, method: str) -> None:
        """Counts one call that begins."""
        if (series := self._begun.get(method)) is None:
            series = self._begun[method] = self.begun.labels(method.removeprefix("/"))
        series.inc()

    def observe(self, method: str, status: str, seconds: float) -> None:
        """Counts one call that has ended."""
        if (series := self._seconds.get((method, status))) is None:
            series = self.seconds.labels(method.removeprefix("/"), status)
            self._seconds[method, status] = series
        series.observe(seconds)


class GrpcMetrics(Struct, frozen=True):
    """The calls that a process answers, and those that it makes."""

    server: CallMetrics
    client: CallMetrics

    @classmethod
    def create(cls, meter: Meter) -> Self:
        """The metrics, registered."""
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
    """A registry with what every process tells: its version, memory, processor time and files."""
    registry = CollectorRegistry()
    info = Meter(registry).gauge(
        "hermes_build_info", "Always 1; the labels say what runs.", "version", "python"
    )
    info.labels(version, platform.python_version()).set(1)
    ProcessCollector(registry=registry)
    return registry


class Exposition(Collector):
    """All metrics of a process; those of services that share it have the label `service`."""

    def __init__(
        self, process: CollectorRegistry, services: Mapping[str, CollectorRegistry] | None = None
    ) -> None:
        self.process = process
        self.services = services or {}

    def collect(self) -> Iterable[Metric]:
        """The families, each once, as Prometheus wants them."""
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
    """The samples without those that say when a series began, which Prometheus knows itself."""
    return [sample for sample in samples if not sample.name.endswith("_created")]


def _checked(name: str, labels: tuple[str, ...]) -> str:
    """Names are snake case, and no label has a value for each user, session or sandbox."""
    for each in (name, *labels):
        if not _NAME.fullmatch(each):
            raise ValueError(f"{each} is not snake case")
    for label in labels:
        if label == "id" or label.endswith("_id"):
            raise ValueError(f"{name}: the label {label} would have a series for each id")
    return name
