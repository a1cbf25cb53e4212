"""What the way out tells Prometheus."""

from typing import Self

from msgspec import Struct, field
from prometheus_client import Counter, Gauge

from executor_service.egress.policy import Rule
from services.metrics import LabelValues, Meter

_MOST_RULES = 100
"""With names of their own; the others share one, as each makes series."""

_NOT_DENIED = frozenset({"allowed", "unresolved", "unreachable"})
"""Outcomes of connections that nothing forbids."""


class EgressMetrics(Struct, frozen=True):
    """Connections that commands asked for, and the bytes of those that they got."""

    connections: Counter
    bytes: Counter
    denied: Counter
    open: Gauge
    rules: LabelValues = field(default_factory=lambda: LabelValues(_MOST_RULES))

    @classmethod
    def create(cls, meter: Meter) -> Self:
        """The metrics, registered."""
        return cls(
            meter.counter(
                "hermes_egress_connections_total",
                "Connections that commands in sandboxes asked for.",
                "rule",
                "outcome",
            ),
            meter.counter(
                "hermes_egress_bytes_total",
                "Bytes that commands in sandboxes exchanged with the world.",
                "rule",
                "direction",
            ),
            meter.counter(
                "hermes_egress_denied_total",
                "Connections that were refused, by the rule that they came under.",
                "rule",
            ),
            meter.gauge(
                "hermes_egress_open_connections", "Connections of sandboxes that are open now."
            ),
        )

    def count(self, rule: Rule | None, outcome: str) -> None:
        """Count a connection, by the rule that it came under and what became of it."""
        name = self.name(rule)
        self.connections.labels(name, outcome).inc()
        if outcome not in _NOT_DENIED:
            self.denied.labels(name).inc()

    def name(self, rule: Rule | None) -> str:
        """The rule as a label: its host."""
        return "none" if rule is None else self.rules.of(rule.host)
