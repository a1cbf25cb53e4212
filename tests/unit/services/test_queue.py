"""Working on a queue: looks after hints, times and failures, and lanes that are served once."""

import asyncio
from contextlib import suppress

from services.database.hints import Hint
from services.database.queue import Lanes, poll
from services.errors import DatabaseUnavailable
from services.lifecycle import Workers


async def _looks(waits: list[float | Exception], hint: Hint, *, retry_s: float = 0.0) -> int:
    """How often a queue is looked at whose looks end like this, and then with a long wait."""
    count = 0

    async def look() -> float:
        nonlocal count
        count += 1
        outcome = waits.pop(0) if waits else 60.0
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with suppress(TimeoutError):
        async with asyncio.timeout(0.1):
            await poll("the queue", look, hint, retry_s=retry_s)
    return count


async def test_it_looks_at_once_on_a_hint_and_after_the_time_that_a_look_names() -> None:
    assert await _looks([], Hint()) == 1
    assert await _looks([0.0, 0.01], Hint()) == 3
    hint = Hint()
    hint.give()
    assert await _looks([], hint) == 2


async def test_a_failure_is_tried_again_but_not_before_it_may_pass() -> None:
    assert await _looks([DatabaseUnavailable("away")], Hint()) == 2
    assert await _looks([DatabaseUnavailable("away", retry_after_s=60.0)], Hint()) == 1


async def test_a_lane_is_busy_until_its_work_ends_also_with_an_error() -> None:
    async def work() -> None:
        await go_on.wait()
        raise DatabaseUnavailable("away")

    go_on, hint = asyncio.Event(), Hint()
    async with Workers() as workers:
        lanes = Lanes("queue of", workers, hint)
        lanes.serve("a", work())
        assert (lanes.busy, workers.names) == ({"a"}, ("queue of a",))
        go_on.set()
        assert await hint.wait(1)
        assert lanes.busy == set()
