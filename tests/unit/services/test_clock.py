"""The system's clock, and the one that tests move."""

import time
from datetime import UTC, datetime, timedelta

from services.clock import Clock, SystemClock


async def test_the_system_clock_tells_aware_time_and_counts_suspension() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=1)
    assert clock.now().tzinfo is UTC
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= clock.monotonic() <= time.clock_gettime(time.CLOCK_BOOTTIME)
    start = clock.monotonic()
    await clock.sleep(0.01)
    assert clock.monotonic() >= start + 0.01
