"""Places are looked at by turns of their own."""

import asyncio
from collections import Counter

from executor_service.workspaces.rounds import Rounds


async def test_a_place_that_is_slow_keeps_nobody_from_looking_at_others() -> None:
    seen: Counter[str] = Counter()

    async def look(place: str, for_s: float) -> None:
        seen[place] += 1
        await asyncio.sleep(for_s)

    rounds = Rounds(share=0.05)
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            # The slow one may be looked at again 4 seconds after it has answered.
            for place, for_s in (("fast", 0), ("slow", 0.2)):
                if rounds.is_due(place):
                    group.create_task(rounds.look(place, 0, look(place, for_s)))
            await asyncio.sleep(0.01)
    assert seen["slow"] == 1
    assert seen["fast"] >= 10


async def test_a_place_is_looked_at_again_after_a_pause() -> None:
    rounds = Rounds(share=0.05)
    for place, pause_s in (("soon", 0.1), ("late", 60)):
        assert rounds.is_due(place)
        await rounds.look(place, pause_s, asyncio.sleep(0))
        assert not rounds.is_due(place)
    await asyncio.sleep(0.5)
    assert rounds.is_due("soon")
    assert not rounds.is_due("late")
    rounds.forget_others({"soon"})
    assert rounds.is_due("late"), "it is a new place"
