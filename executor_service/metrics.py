"""What the executor tells Prometheus."""

from typing import Self

from msgspec import Struct
from prometheus_client import Counter, Gauge, Histogram

from executor_service.egress.metrics import EgressMetrics
from executor_service.records import CommandExit
from services.metrics import LONG_SECONDS, Meter


class ExecutorMetrics(Struct, frozen=True):
    """Sandboxes, commands and their output."""

    acquire_seconds: Histogram
    pool: Gauge
    pool_size: Gauge
    pool_misses: Counter
    exec_seconds: Histogram
    exits: Counter
    truncated: Counter
    reaped: Counter
    stale_epochs: Counter
    lease_refusals: Counter
    operator_uses: Counter
    spool_bytes: Gauge
    egress: EgressMetrics
    workspaces: Gauge
    workspace_bytes: Gauge
    workspaces_removed: Counter

    @classmethod
    def create(cls, meter: Meter) -> Self:
        """The metrics, registered."""
        return cls(
            acquire_seconds=meter.histogram(
                "hermes_sandbox_acquire_seconds",
                "Time until a session had its sandbox.",
                *("backend", "template", "launch", "outcome"),
            ),
            pool=meter.gauge(
                "hermes_sandbox_pool",
                "Boxes by what they are for, and callers who wait for one.",
                "backend",
                "template",
                "state",
            ),
            pool_size=meter.gauge(
                "hermes_sandbox_pool_size",
                "Boxes that are kept ready (warm), and boxes that there may be in all (most).",
                "backend",
                "template",
                "kind",
            ),
            pool_misses=meter.counter(
                "hermes_sandbox_pool_misses_total", "Times that no warm box was ready.", "template"
            ),
            exec_seconds=meter.histogram(
                "hermes_exec_seconds", "How long commands ran.", buckets=LONG_SECONDS
            ),
            exits=meter.counter(
                "hermes_exec_exits_total", "Commands that ended.", "backend", "reason"
            ),
            truncated=meter.counter(
                "hermes_exec_output_truncated_total", "Commands of which output was dropped."
            ),
            reaped=meter.counter(
                "hermes_orphans_reaped_total", "Boxes that nobody knew, and that were ended."
            ),
            lease_refusals=meter.counter(
                "hermes_lease_refusals_total",
                "Calls about a sandbox that was not the caller's, by why it was not.",
                "reason",
            ),
            stale_epochs=meter.counter(
                "hermes_stale_epoch_rejections_total", "Calls of an owner that was followed."
            ),
            operator_uses=meter.counter(
                "hermes_operator_uses_total", "Calls of operators to sandboxes that others have."
            ),
            spool_bytes=meter.gauge("hermes_spool_bytes", "Output of commands on disk."),
            egress=EgressMetrics.create(meter),
            workspaces=meter.gauge("hermes_workspaces", "Workspaces and snapshots."),
            workspace_bytes=meter.gauge("hermes_workspace_bytes", "What they take, if known."),
            workspaces_removed=meter.counter(
                "hermes_workspaces_removed_total", "Workspaces and snapshots that went.", "reason"
            ),
        )

    def ended(self, backend: str, exit_: CommandExit) -> None:
        """Count a command that ended."""
        self.exits.labels(backend, exit_.reason.lower()).inc()
        self.exec_seconds.observe(exit_.duration_ms / 1000)
        self.truncated.inc(exit_.truncated)
