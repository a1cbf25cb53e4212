"""The executor's metrics for Prometheus."""

from msgspec import field
from prometheus_client import Counter, Gauge, Histogram

from executor_service.records.network_policy import Rule
from executor_service.records.sandboxes import Exit
from services.telemetry.metrics import (
    LONG_SECONDS,
    LabelValues,
    Metrics,
    counter,
    gauge,
    histogram,
    nested,
)

_MOST_RULES = 100
"""Rules with a label of their own; the others share one, because each label makes series."""

_NOT_DENIED = frozenset({"allowed", "unresolved", "unreachable"})
"""Outcomes of connections that no policy denied."""


class EgressMetrics(Metrics, frozen=True):
    """Connections that commands requested, and the bytes of those that were allowed."""

    connections: Counter = counter(
        "hermes_egress_connections_total",
        "Connections requested by commands in sandboxes.",
        *("rule", "outcome"),
    )
    bytes: Counter = counter(
        "hermes_egress_bytes_total",
        "Bytes on allowed connections of commands in sandboxes.",
        *("rule", "direction"),
    )
    denied: Counter = counter("hermes_egress_denied_total", "Refused connections, by rule.", "rule")
    open: Gauge = gauge("hermes_egress_open_connections", "Open connections of sandboxes.")
    rules: LabelValues = field(default_factory=lambda: LabelValues(_MOST_RULES))

    def count(self, rule: Rule | None, outcome: str) -> None:
        """Count a connection by its rule and outcome."""
        name = self.name(rule)
        self.connections.labels(name, outcome).inc()
        if outcome not in _NOT_DENIED:
            self.denied.labels(name).inc()

    def name(self, rule: Rule | None) -> str:
        return "none" if rule is None else self.rules.bound(rule.host)


class ExecutorMetrics(Metrics, frozen=True):
    """Sandboxes, commands and their output."""

    acquire_seconds: Histogram = histogram(
        "hermes_sandbox_acquire_seconds",
        "Time from a session's request to its sandbox.",
        *("backend", "template", "launch", "outcome"),
    )
    pool: Gauge = gauge(
        "hermes_sandbox_pool",
        "Sandboxes by state, and callers waiting for one.",
        "backend",
        "template",
        "state",
    )
    pool_size: Gauge = gauge(
        "hermes_sandbox_pool_size",
        "Sandboxes to keep ready (warm), and the limit (most).",
        "backend",
        "template",
        "kind",
    )
    pool_misses: Counter = counter(
        "hermes_sandbox_pool_misses_total", "Requests that found no sandbox ready.", "template"
    )
    exec_seconds: Histogram = histogram(
        "hermes_exec_seconds", "Duration of commands.", buckets=LONG_SECONDS
    )
    exits: Counter = counter("hermes_exec_exits_total", "Commands that ended.", "backend", "reason")
    truncated: Counter = counter(
        "hermes_exec_output_truncated_total", "Commands whose output was truncated."
    )
    reaped: Counter = counter(
        "hermes_orphans_reaped_total", "Sandboxes without a claim that were ended."
    )
    lease_refusals: Counter = counter(
        "hermes_lease_refusals_total",
        "Calls refused because the sandbox is not the caller's, by reason.",
        "reason",
    )
    stale_epochs: Counter = counter(
        "hermes_stale_epoch_rejections_total",
        "Calls refused because they came from a previous owner.",
    )
    operator_uses: Counter = counter(
        "hermes_operator_uses_total", "Calls of operators to sandboxes of others."
    )
    egress: EgressMetrics = nested(EgressMetrics)
    spool_bytes: Gauge = gauge("hermes_spool_bytes", "Size of the stored output of commands.")
    workspaces: Gauge = gauge("hermes_workspaces", "Workspaces and snapshots.")
    workspace_bytes: Gauge = gauge(
        "hermes_workspace_bytes", "Size of workspaces and snapshots, if known."
    )
    workspaces_removed: Counter = counter(
        "hermes_workspaces_removed_total", "Workspaces and snapshots removed.", "reason"
    )

    def count_exit(self, backend: str, exit_: Exit) -> None:
        self.exits.labels(backend, exit_.reason.lower()).inc()
        self.exec_seconds.observe(exit_.duration_ms / 1000)
        self.truncated.inc(exit_.truncated)
