"""A hundred turns are cut off by kills at seeded points: none is lost, none is done twice.

A kill cuts off all conversations at once, each wherever it is, so that a hundred points need only
about a dozen restarts.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.chaos.crashes import (
    ANSWER,
    KILL_POINTS,
    WRITTEN,
    Watcher,
    asked,
    reach,
)
from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.deployment import Deployment, one_process, running
from tests.e2e.model import ModelProcess

CONVERSATIONS = 10
CUT_TURNS = 100
MOST_KILLS = 25
SEED = 4
ALL_DONE_WITHIN_S = 120.0


@pytest.fixture
def hermes(model: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """`hermes up` with processes for boxes, the quickest to start again."""
    need_backend("bubblewrap", tmp_path_factory.mktemp("probe"))
    folder = tmp_path_factory.mktemp("many")
    with running(one_process(folder, model.url, sandboxed("bubblewrap"))) as deployment:
        yield deployment


@pytest.mark.timeout(300)
async def test_a_hundred_turns_that_are_cut_off_are_done_once(hermes: Deployment) -> None:
    dice = random.Random(SEED)
    sessions = [""] * CONVERSATIONS
    cut = kills = 0
    while cut < CUT_TURNS:
        assert kills < MOST_KILLS, "the kills come when most turns have ended"
        watchers, cut_now = await _ask_all_and_kill(hermes, sessions, dice)
        cut, kills = cut + cut_now, kills + 1
        for watcher in watchers:
            assert watcher.answer == ANSWER
            assert watcher.sequences == list(range(1, len(watcher.sequences) + 1))
            assert watcher.seen["tool_finished"] == 2
        sessions = [watcher.session_id for watcher in watchers]
    assert len({*sessions}) == CONVERSATIONS
    for session_id in sessions:
        async with asked(hermes, "show the log", session_id) as showing:
            pass
        assert showing.answer == "\n".join([WRITTEN] * kills), "each command ran once"


async def _ask_all_and_kill(
    hermes: Deployment, sessions: list[str], dice: random.Random
) -> tuple[list[Watcher], int]:
    """Ask in each session and kill with one turn at a point; returns how many were cut off."""
    journal = hermes.client.path / "state" / "agent.db"
    async with AsyncExitStack() as stack:
        watchers: list[Watcher] = []
        for session_id in sessions:
            opening = asked(hermes, "two commands", session_id, ALL_DONE_WITHIN_S)
            watchers.append(await stack.enter_async_context(opening))
            await asyncio.sleep(dice.uniform(0, 0.1))
        await reach(dice.choice(watchers), dice.choice(KILL_POINTS), journal)
        await asyncio.to_thread(hermes.kill)
        cut = sum(not watcher.seen["turn_finished"] for watcher in watchers)
        await asyncio.to_thread(hermes.start)
    return watchers, cut
