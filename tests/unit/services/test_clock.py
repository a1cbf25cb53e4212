"""The system's clock, and the one that tests move."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from services.clock import Clock, SystemClock
from tests.fakes.clock import ManualClock


async def test_the_system_clock_tells_aware_time_and_counts_suspension() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=1)
    assert clock.now().tzinfo is UTC
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= clock.monotonic() <= time.clock_gettime(time.CLOCK_BOOTTIME)
    start = clock.monotonic()
    await clock.sleep(0.01)
    assert clock.monotonic() >= start + 0.01


async def test_a_manual_clock_wakes_sleepers_in_order_at_their_own_moments() -> None:
    clock = ManualClock()
    start = clock.now()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("late", 5))
        group.create_task(sleeper("twice", 2, 2))
        await clock.advance(4.5)
        assert woken == [("twice", 2), ("twice", 4)]
        assert clock.now() == start + timedelta(seconds=4.5)
        await clock.advance(0.5)
    assert woken[-1] == ("late", 5)


async def test_after_a_suspension_sleepers_wake_late() -> None:
    clock = ManualClock()
    task = asyncio.ensure_future(clock.sleep(10))
    await asyncio.sleep(0)
    await clock.suspend(3600)
    assert task.done()
    assert clock.monotonic() == 3600
