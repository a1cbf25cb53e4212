"""The metrics that the services declare."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from agent_service.models.instrumented_model import ModelMetrics
from agent_service.turns.metrics import AgentMetrics, Gauges, build_scanner
from executor_service.metrics import ExecutorMetrics
from gateway_service.metrics import GatewayMetrics
from scheduler_service.runs.metrics import BatchMetrics, CuratorMetrics, SchedulerMetrics
from services.database import Database
from services.telemetry.metrics import GrpcMetrics, Meter, redactions

OURS = re.compile(r"\b(?:hermes|grpc|gen_ai)_[a-z0-9_]+")
SUFFIX = re.compile(r"_(?:count|sum|bucket)$")
BY_LABELS = re.compile(r"\{[^}]*\}|by \([^)]*\)")
"""Parts of PromQL that name labels."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


class Noting(Meter):
    """Notes what is made."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry())
        self.noted: list[Declared] = []

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        self.noted.append(Declared(name, "counter", labels, meaning))
        return super().counter(name, meaning, *labels)

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        self.noted.append(Declared(name, "gauge", labels, meaning))
        return super().gauge(name, meaning, *labels)

    def histogram(self, name: str, meaning: str, *labels: str, **options: Any) -> Histogram:
        self.noted.append(Declared(name, "histogram", labels, meaning))
        return super().histogram(name, meaning, *labels, **options)


def declared() -> Mapping[str, list[Declared]]:
    """All metrics, by whose they are."""
    every, agent, executor, gateway, scheduler = (Noting() for _ in range(5))
    GrpcMetrics.create(every)
    Database("sqlite:////nonexistent/rows.db", "any").measure(every)
    AgentMetrics.make(agent, ())
    ModelMetrics.make(agent, bool)
    Gauges.create(agent)
    build_scanner(agent)
    for storing in (agent, gateway, scheduler):
        redactions(storing)
    ExecutorMetrics.create(executor)
    GatewayMetrics.create(gateway)
    SchedulerMetrics.create(scheduler)
    CuratorMetrics.create(scheduler)
    BatchMetrics.create(scheduler)
    return {
        "every service": every.noted,
        "agent": agent.noted,
        "executor": executor.noted,
        "gateway": gateway.noted,
        "scheduler": scheduler.noted,
    }


def table(whose: str) -> str:
    """The metrics of a service as a table for people."""
    rows: Iterable[str] = (
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} "
        f"| {one.meaning} |"
        for one in sorted(declared()[whose], key=lambda one: one.name)
    )
    return "\n".join(["| Metric | Kind | Labels | Meaning |", "|---|---|---|---|", *rows])
