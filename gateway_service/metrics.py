"""The gateway's Prometheus metrics."""

from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

from services.telemetry.metrics import Metrics, counter, gauge, histogram


class GatewayMetrics(Metrics, frozen=True):
    """Traffic, and the health of platforms."""

    inbox_lag: Histogram = histogram(
        "hermes_inbox_lag_seconds", "From storing a message to its turn.", "platform"
    )
    duplicates: Counter = counter(
        "hermes_duplicates_suppressed_total", "Events that came again and were ignored."
    )
    outbox_pending: Gauge = gauge("hermes_outbox_pending", "Messages that wait to be sent.")
    outbox_oldest: Gauge = gauge(
        "hermes_outbox_oldest_seconds", "How long the oldest of them has waited."
    )
    deliveries: Counter = counter(
        "hermes_deliveries_total", "Messages sent or given up.", "platform", "outcome"
    )
    connected: Gauge = gauge(
        "hermes_platform_connected", "Whether the platform answers.", "platform"
    )
    last_receive: Gauge = gauge(
        "hermes_platform_last_receive_timestamp_seconds",
        "When the platform last answered a poll.",
        "platform",
    )
    rate_limited: Counter = counter(
        "hermes_platform_rate_limited_seconds_total",
        "How long the platform has told us to wait.",
        "platform",
    )
    http_requests: Counter = counter(
        "hermes_http_requests_total", "Answered HTTP requests.", "route", "status"
    )
    webhooks: Counter = counter(
        "hermes_webhooks_total",
        "Requests of platforms; a refused one has no valid signature, for instance.",
        "platform",
        "outcome",
    )

    def initialize(self, platform: str, outcomes: Iterable[str]) -> None:
        """Create counters at 0, so that the first event is seen as a change."""
        for outcome in outcomes:
            self.deliveries.labels(platform, outcome)
        self.rate_limited.labels(platform)
