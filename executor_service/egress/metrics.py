"""What the way out tells Prometheus."""

from typing import Self

from msgspec import Struct, field
from prometheus_client import Counter, Gauge

from executor_service.egress.policy import Rule
from services.metrics import Meter

_MOST_RULES = 100
"""With names of their own; the others share one, as each makes series."""


class EgressMetrics(Struct, frozen=True):
    """Connections that commands asked for, and the bytes of those that they got."""

    connections: Counter
    bytes: Counter
    open: Gauge
    _names: set[str] = field(default_factory=set[str])

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
            meter.gauge(
                "hermes_egress_open_connections", "Connections of sandboxes that are open now."
            ),
        )

    def count(self, rule: Rule | None, outcome: str) -> None:
        """Count a connection, by the rule that it came under and what became of it."""
        self.connections.labels(self.name(rule), outcome).inc()

    def name(self, rule: Rule | None) -> str:
        """The rule as a label: its host."""
        if rule is None:
            return "none"
        if rule.host not in self._names:
            if len(self._names) >= _MOST_RULES:
                return "other"
            self._names.add(rule.host)
        return rule.host
