"""The clock seam: wall time for people, monotonic time for deadlines."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

# Deadlines must count the time that a laptop slept. CLOCK_BOOTTIME does on Linux; on macOS there
# is no such name, and CLOCK_MONOTONIC is the clock that goes on during sleep.
_DEADLINE_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Where a component gets its time, so that tests can move it."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back and go on while the machine is suspended."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back and go on while the machine is suspended."""
        return time.clock_gettime(_DEADLINE_CLOCK)

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds; the time of a suspension may come on top."""
        await asyncio.sleep(seconds)
