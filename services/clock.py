"""The clock seam: wall time for people, monotonic time for deadlines."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

# Deadlines must include suspended time: CLOCK_BOOTTIME does on Linux, CLOCK_MONOTONIC on macOS.
_DEADLINE_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """The source of time, which tests can replace."""

    def now(self) -> datetime:
        """Return the aware wall time in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back and include suspended time."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_DEADLINE_CLOCK)

    async def sleep(self, seconds: float) -> None:
        """Sleep; suspended time may come on top."""
        await asyncio.sleep(seconds)
