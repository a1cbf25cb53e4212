"""The scheduler's metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from scheduler_service.jobs import RunState

_LATENESS_S = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600, 86_400)


class SchedulerMetrics:
    """What the planner and the runner count."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._runs = Counter("hermes_cron_runs", "Runs that ended.", ["outcome"], registry=registry)
        self._lateness = Histogram(
            "hermes_cron_lateness_seconds",
            "From a due time until its run was claimed.",
            buckets=_LATENESS_S,
            registry=registry,
        )
        self._missed = Counter(
            "hermes_cron_missed",
            "Times that a job had due times which got no run of their own.",
            ["policy"],
            registry=registry,
        )
        self._next_due = Gauge(
            "hermes_cron_next_due_timestamp_seconds",
            "When the next job is due; 0 when there is none.",
            registry=registry,
        )
        for outcome in (RunState.SUCCEEDED, RunState.FAILED):
            self._runs.labels(outcome.lower())
        self._missed.labels("once")

    def ended(self, outcome: RunState) -> None:
        """Count a run that ended."""
        self._runs.labels(outcome.lower()).inc()

    def claimed(self, lateness_s: float) -> None:
        """Count a run that was claimed."""
        self._lateness.observe(max(0.0, lateness_s))

    def missed(self, count: int) -> None:
        """Count jobs of which due times have passed."""
        self._missed.labels("once").inc(count)

    def next_due(self, timestamp_s: float | None) -> None:
        """Show when the next job is due."""
        self._next_due.set(timestamp_s or 0)
