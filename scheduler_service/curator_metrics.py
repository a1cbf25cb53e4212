"""The curator's metrics."""

from typing import Self

from msgspec import Struct
from prometheus_client import Counter, Gauge

from scheduler_service.curator_records import TRANSITIONS, Report
from services.metrics import Meter


class CuratorMetrics(Struct):
    """What the curator counts."""

    last: Gauge
    transitions: Counter
    latest_s: float = 0.0

    @classmethod
    def create(cls, meter: Meter) -> Self:
        """The metrics, registered."""
        metrics = cls(
            meter.gauge(
                "hermes_curator_last_run_timestamp_seconds",
                "When the curator last ran in any profile, in seconds since 1970; 0 is never.",
            ),
            meter.counter(
                "hermes_curator_transitions_total",
                "Skills that the curator found in use again, stale, or put away.",
                "to",
            ),
        )
        for transition in TRANSITIONS:
            metrics.transitions.labels(transition)
        return metrics

    def last_run(self, timestamp_s: float) -> None:
        """Show when it last ran in a profile."""
        self.latest_s = max(self.latest_s, timestamp_s)
        self.last.set(self.latest_s)

    def done(self, report: Report) -> None:
        """Count what a run did."""
        if report.dry_run:
            return
        if report.time is not None:
            self.last_run(report.time.timestamp())
        for change in report.changes:
            if change.kind in TRANSITIONS:
                self.transitions.labels(change.kind).inc()
