"""A turn goes on where it was when what carries it is killed: nothing twice, nothing lost."""

import asyncio

import pytest

from tests.chaos.crashes import (
    KILL_POINTS,
    OUTPUTS,
    WRITTEN,
    Point,
    Watcher,
    asked,
    reach,
    tool_results,
)
from tests.e2e.deployment import SERVICES, Deployment

SERVICE_POINTS = (
    Point("accepted", to_ms=30),
    Point("tool_started", from_ms=0, to_ms=60),
    Point("tool_progress", from_ms=0, to_ms=320),
    Point("text_delta", count=9, from_ms=0, to_ms=50),
)


@pytest.mark.parametrize("point", KILL_POINTS, ids=str)
async def test_a_killed_process_goes_on_after_its_restart(up: Deployment, point: Point) -> None:
    journal = up.client.path / "state" / "agent.db"
    await asyncio.to_thread(up.start)
    async with asked(up, "two commands") as watcher:
        await reach(watcher, point, journal)
        await asyncio.to_thread(up.kill)
        await asyncio.to_thread(up.start)
    await check_all_happened_once(up, watcher)


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("point", SERVICE_POINTS, ids=str)
async def test_a_killed_service_is_waited_for(four: Deployment, service: str, point: Point) -> None:
    await asyncio.to_thread(four.start)
    async with asked(four, "two commands") as watcher:
        await reach(watcher, point, four.folder)
        await asyncio.to_thread(four.servers[service].kill)
        await asyncio.to_thread(four.start)
    await check_all_happened_once(four, watcher)


async def check_all_happened_once(deployment: Deployment, watcher: Watcher) -> None:
    """The turn ended with its answer, each command ran once, and the watcher missed nothing."""
    watcher.check_all_came_once()
    async with asked(deployment, "show the log", watcher.session_id) as showing:
        pass
    assert showing.answer == WRITTEN, "each command wrote its line once"
    assert (await tool_results(deployment, watcher))[:2] == OUTPUTS
