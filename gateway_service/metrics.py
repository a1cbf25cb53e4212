"""The gateway's Prometheus metrics."""

from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

from services.telemetry.metrics import Metrics, counter, gauge, histogram


class GatewayMetrics(Metrics, frozen=True):
    """Traffic, and the health of platforms."""

    inbox_lag: Histogram = histogram(
        "hermes_inbox_lag_seconds", "Time from storing a message to its turn.", "platform"
    )
    duplicates: Counter = counter(
        "hermes_duplicates_suppressed_total", "Repeated events, which were ignored."
    )
    outbox_pending: Gauge = gauge("hermes_outbox_pending", "Messages waiting to be sent.")
    outbox_oldest: Gauge = gauge(
        "hermes_outbox_oldest_seconds", "Age of the oldest message waiting to be sent."
    )
    deliveries: Counter = counter(
        "hermes_deliveries_total", "Messages sent or abandoned.", "platform", "outcome"
    )
    connected: Gauge = gauge("hermes_platform_connected", "1 if the platform answers.", "platform")
    last_receive: Gauge = gauge(
        "hermes_platform_last_receive_timestamp_seconds",
        "Time of the platform's last answer to a poll.",
        "platform",
    )
    rate_limited: Counter = counter(
        "hermes_platform_rate_limited_seconds_total",
        "Time that the platform has asked Hermes to wait.",
        "platform",
    )
    http_requests: Counter = counter(
        "hermes_http_requests_total", "HTTP requests answered.", "route", "status"
    )
    webhooks: Counter = counter(
        "hermes_webhooks_total", "Webhook requests of platforms, by outcome.", "platform", "outcome"
    )

    def initialize(self, platform: str, outcomes: Iterable[str]) -> None:
        """Create counters at 0, so that the first event is seen as a change."""
        for outcome in outcomes:
            self.deliveries.labels(platform, outcome)
        self.rate_limited.labels(platform)
