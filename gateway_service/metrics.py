"""What the gateway tells Prometheus."""

from collections.abc import Iterable
from typing import Self

from msgspec import Struct
from prometheus_client import Counter, Gauge, Histogram

from services.metrics import Meter


class GatewayMetrics(Struct, frozen=True):
    """What came in, what went out, and whether the platforms are there."""

    inbox_lag: Histogram
    duplicates: Counter
    outbox_pending: Gauge
    outbox_oldest: Gauge
    deliveries: Counter
    connected: Gauge
    last_receive: Gauge
    rate_limited: Counter

    @classmethod
    def create(cls, meter: Meter) -> Self:
        """The metrics, registered."""
        return cls(
            inbox_lag=meter.histogram(
                "hermes_inbox_lag_seconds", "From storing a message to its turn.", "platform"
            ),
            duplicates=meter.counter(
                "hermes_duplicates_suppressed_total", "Events that came again and were ignored."
            ),
            outbox_pending=meter.gauge("hermes_outbox_pending", "Messages that wait to be sent."),
            outbox_oldest=meter.gauge(
                "hermes_outbox_oldest_seconds", "How long the oldest of them has waited."
            ),
            deliveries=meter.counter(
                "hermes_deliveries_total", "Messages sent or given up.", "platform", "outcome"
            ),
            connected=meter.gauge(
                "hermes_platform_connected", "Whether the platform answers.", "platform"
            ),
            last_receive=meter.gauge(
                "hermes_platform_last_receive_timestamp_seconds",
                "When the platform last answered a poll.",
                "platform",
            ),
            rate_limited=meter.counter(
                "hermes_platform_rate_limited_seconds_total",
                "How long the platform has told us to wait.",
                "platform",
            ),
        )

    def known(self, platform: str, outcomes: Iterable[str]) -> None:
        """Show what has not happened yet, so that the first time is seen as a change."""
        for outcome in outcomes:
            self.deliveries.labels(platform, outcome)
        self.rate_limited.labels(platform)
