"""The scheduler's metrics."""

from prometheus_client import Counter, Gauge, Histogram

from scheduler_service.curation import TRANSITIONS, Report
from scheduler_service.jobs import RunState
from scheduler_service.options import MissedRunPolicy
from services.telemetry.metrics import Metrics, counter, gauge, histogram

_LATENESS_S = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600, 86_400)


class SchedulerMetrics(Metrics, frozen=True):
    """Metrics of the planner and the runner."""

    runs: Counter = counter("hermes_cron_runs_total", "Runs ended.", "outcome")
    lateness: Histogram = histogram(
        "hermes_cron_lateness_seconds",
        "Time from a due time to the claim of its run.",
        buckets=_LATENESS_S,
    )
    missed_jobs: Counter = counter(
        "hermes_cron_missed_total",
        "Due times that got no run of their own.",
        "policy",
        known=MissedRunPolicy,
    )
    next_due_time: Gauge = gauge(
        "hermes_cron_next_due_timestamp_seconds",
        "Due time of the next job, in seconds since 1970; 0 if there is none.",
    )

    def count_end(self, outcome: RunState) -> None:
        self.runs.labels(outcome.lower()).inc()

    def claimed(self, lateness_s: float) -> None:
        self.lateness.observe(max(0.0, lateness_s))

    def missed(self, policy: MissedRunPolicy) -> None:
        """Count a job that missed due times."""
        self.missed_jobs.labels(policy).inc()

    def next_due(self, timestamp_s: float | None) -> None:
        self.next_due_time.set(timestamp_s or 0)


class CuratorMetrics(Metrics, frozen=True):
    """Metrics of the curator."""

    last_run: Gauge = gauge(
        "hermes_curator_last_run_timestamp_seconds",
        "Time of the curator's latest run in any profile, in seconds since 1970; 0 is never.",
    )
    transitions: Counter = counter(
        "hermes_curator_transitions_total",
        "Skills that the curator marked active or stale, or archived.",
        "to",
        known=TRANSITIONS,
    )

    def count(self, report: Report) -> None:
        for change in report.changes:
            if change.kind in TRANSITIONS and not report.dry_run:
                self.transitions.labels(change.kind).inc()


class BatchMetrics(Metrics, frozen=True):
    """Metrics of batches."""

    items: Counter = counter(
        "hermes_batch_items_total",
        "Items of batches that have ended.",
        "outcome",
        known=("completed", "limit_reached", "failed"),
    )

    def count(self, outcome: str) -> None:
        self.items.labels(outcome.lower()).inc()
