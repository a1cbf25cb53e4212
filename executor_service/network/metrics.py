"""What the way out tells Prometheus."""

from msgspec import field
from prometheus_client import Counter, Gauge

from executor_service.records.network_policy import Rule
from services.telemetry.metrics import LabelValues, Metrics, counter, gauge

_MOST_RULES = 100
"""With names of their own; the others share one, as each makes series."""

_NOT_DENIED = frozenset({"allowed", "unresolved", "unreachable"})
"""Outcomes of connections that nothing forbids."""


class EgressMetrics(Metrics, frozen=True):
    """Connections that commands asked for, and the bytes of those that they got."""

    connections: Counter = counter(
        "hermes_egress_connections_total",
        "Connections that commands in sandboxes asked for.",
        *("rule", "outcome"),
    )
    bytes: Counter = counter(
        "hermes_egress_bytes_total",
        "Bytes that commands in sandboxes exchanged with the world.",
        *("rule", "direction"),
    )
    denied: Counter = counter(
        "hermes_egress_denied_total",
        "Connections that were refused, by the rule that they came under.",
        "rule",
    )
    open: Gauge = gauge(
        "hermes_egress_open_connections", "Connections of sandboxes that are open now."
    )
    rules: LabelValues = field(default_factory=lambda: LabelValues(_MOST_RULES))

    def count(self, rule: Rule | None, outcome: str) -> None:
        """Count a connection, by the rule that it came under and what became of it."""
        name = self.name(rule)
        self.connections.labels(name, outcome).inc()
        if outcome not in _NOT_DENIED:
            self.denied.labels(name).inc()

    def name(self, rule: Rule | None) -> str:
        """The rule as a label: its host."""
        return "none" if rule is None else self.rules.of(rule.host)
