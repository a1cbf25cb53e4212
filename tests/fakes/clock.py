"""A clock that stands still until a test moves it."""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

_START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
_TURNS_AFTER_WAKING = 20  # of the event loop: what a woken task awaits next is reached too


class ManualClock:
    """A `Clock` whose time passes only in `advance`."""

    def __init__(self, start: datetime = _START) -> None:
        self._now = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Pass so many seconds, waking each sleeper at its own moment and in order."""
        end = self._elapsed + seconds
        await _let_others_run()
        while self._sleepers and self._sleepers[0][0] <= end:
            moment, _, woken = heapq.heappop(self._sleepers)
            self._move_to(max(moment, self._elapsed))
            if not woken.done():
                woken.set_result(None)
            await _let_others_run()
        self._move_to(end)

    async def suspend(self, seconds: float) -> None:
        """Pass so many seconds in which nothing runs, as on a laptop that is closed."""
        self._move_to(self._elapsed + seconds)
        await self.advance(0)

    def step_wall(self, seconds: float) -> None:
        """Set the wall time forward or back, as an administrator would; no time passes."""
        self._now += timedelta(seconds=seconds)

    def _move_to(self, moment: float) -> None:
        self._now += timedelta(seconds=moment - self._elapsed)
        self._elapsed = moment


async def _let_others_run() -> None:
    for _ in range(_TURNS_AFTER_WAKING):
        await asyncio.sleep(0)


class HastyClock:
    """A `Clock` that is never waited for: each sleep is over at once, and has passed."""

    def __init__(self, start: datetime = _START) -> None:
        self._start = start
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=sum(self.slept))

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)
