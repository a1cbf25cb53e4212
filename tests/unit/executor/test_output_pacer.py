"""A command is held back for a reader who is about to miss output, but not for long."""

import asyncio

from executor_service.execs.command import OutputPacer

FAR = 100
LONG_S = 60.0


def paced(hold_s: float) -> tuple[OutputPacer, list[tuple[int, int]]]:
    told: list[tuple[int, int]] = []
    return OutputPacer(lambda stream, offset: told.append((stream, offset)), FAR, hold_s), told


async def test_without_a_reader_who_is_far_behind_nothing_waits() -> None:
    pacing, told = paced(LONG_S)
    pacing.acknowledge(1, 500)
    with pacing.reading(lambda: FAR):
        pacing.acknowledge(1, 600)
    assert told == [(1, 500), (1, 600)]


async def test_what_is_held_goes_when_the_reader_has_caught_up() -> None:
    pacing, told = paced(LONG_S)
    behind = FAR + 1
    with pacing.reading(lambda: behind):
        pacing.acknowledge(1, 500)
        pacing.acknowledge(2, 10)
        pacing.acknowledge(1, 600)
        pacing.on_progress()
        assert told == []
        behind = FAR
        pacing.on_progress()
        assert told == [(1, 600), (2, 10)]


async def test_the_foremost_reader_counts_and_one_who_leaves_does_not() -> None:
    pacing, told = paced(LONG_S)
    with pacing.reading(lambda: 10 * FAR):
        with pacing.reading(lambda: 0):
            pacing.acknowledge(1, 500)
        assert told == [(1, 500)]
        pacing.acknowledge(1, 600)
        assert told == [(1, 500)]
    assert told == [(1, 500), (1, 600)]


async def test_a_slow_reader_holds_nothing_for_long() -> None:
    pacing, told = paced(0.01)
    with pacing.reading(lambda: 10 * FAR):
        pacing.acknowledge(1, 500)
        assert told == []
        await asyncio.sleep(0.1)
        assert told == [(1, 500)]


async def test_what_a_lost_link_was_to_hear_is_forgotten() -> None:
    pacing, told = paced(0.01)
    with pacing.reading(lambda: 10 * FAR):
        pacing.acknowledge(1, 500)
        pacing.forget()
        await asyncio.sleep(0.1)
    assert told == []
