"""The planner's next wake-up: one job of APScheduler, however often it is put off."""

import asyncio

from scheduler_service.runs.planner import WakeUp


class Woken:
    """Counts."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._event.set()

    async def within(self, seconds: float) -> None:
        """Return at the next call."""
        async with asyncio.timeout(seconds):
            await self._event.wait()
        self._event.clear()


async def test_it_wakes_once_at_the_time_that_was_told_last() -> None:
    woken, loop = Woken(), asyncio.get_running_loop()
    async with WakeUp(woken, 30) as wake_up:
        for seconds in (5, 0.01, 20, 10, 0.3) * 20:
            wake_up.be_in(seconds)
        begun = loop.time()
        await woken.within(5)
        assert loop.time() - begun >= 0.25
        await asyncio.sleep(0.3)
        assert woken.count == 1
        wake_up.be_in(0.01)
        await woken.within(5)


async def test_it_wakes_by_itself_and_no_more_when_it_is_closed() -> None:
    woken = Woken()
    async with WakeUp(woken, 0.1) as wake_up:
        wake_up.be_in(3600)
        await woken.within(5)
        await woken.within(5)
    seen = woken.count
    await asyncio.sleep(0.3)
    assert woken.count <= seen + 1
