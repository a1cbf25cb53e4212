"""Places are looked at by turns of their own."""

import asyncio
from collections import Counter
from functools import partial

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
                    group.create_task(rounds.look(place, 0, partial(look, place, for_s)))
            await asyncio.sleep(0.01)
    assert seen["slow"] == 1
    assert seen["fast"] >= 10


async def test_few_are_looked_at_side_by_side_and_waiting_makes_none_slow() -> None:
    looking, most = 0, 0

    async def look() -> None:
        nonlocal looking, most
        looking += 1
        most = max(most, looking)
        await asyncio.sleep(0.1)
        looking -= 1

    rounds, room = Rounds(share=0.5), asyncio.Semaphore(2)
    places = [str(number) for number in range(8)]
    async with asyncio.TaskGroup() as group:
        for place in places:
            group.create_task(rounds.look(place, 0, look, room))
    assert most == 2
    # The last has waited for 0.3 s and looked for 0.1: it is due again after another 0.1.
    await asyncio.sleep(0.25)
    assert all(map(rounds.is_due, places))


async def test_a_place_is_looked_at_again_after_a_pause() -> None:
    rounds = Rounds(share=0.05)
    for place, pause_s in (("soon", 0.1), ("late", 60)):
        assert rounds.is_due(place)
        await rounds.look(place, pause_s, partial(asyncio.sleep, 0))
        assert not rounds.is_due(place)
    await asyncio.sleep(0.5)
    assert rounds.is_due("soon")
    assert not rounds.is_due("late")
    rounds.forget_others({"soon"})
    assert rounds.is_due("late"), "it is a new place"
