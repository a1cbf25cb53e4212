"""A program of the model goes on when the services are killed: each of its calls is made once."""

import asyncio

import pytest

from tests.chaos.crashes import WRITTEN, Point, asked, reach
from tests.e2e.deployment import SERVICES, Deployment

POINTS = (
    Point("tool_started", to_ms=60),
    Point("tool_progress", from_ms=0, to_ms=20),
    Point("tool_progress", from_ms=100, to_ms=280),
    Point("tool_progress", from_ms=290, to_ms=340),
    Point("tool_progress", count=3, from_ms=0, to_ms=200),
)


@pytest.mark.parametrize("point", POINTS, ids=str)
async def test_a_program_goes_on_after_everything_was_killed(up: Deployment, point: Point) -> None:
    await asyncio.to_thread(up.start)
    async with asked(up, "a program") as watcher:
        await reach(watcher, point, up.client.path / "state" / "agent.db")
        await asyncio.to_thread(up.kill)
        await asyncio.to_thread(up.start)
    assert watcher.answer == WRITTEN
    async with asked(up, "show the log", watcher.session_id) as showing:
        pass
    assert showing.answer == WRITTEN, "each call was made once"


@pytest.mark.parametrize("service", SERVICES)
async def test_a_program_waits_for_a_killed_service(four: Deployment, service: str) -> None:
    await asyncio.to_thread(four.start)
    async with asked(four, "a program") as watcher:
        await reach(watcher, Point("tool_progress", from_ms=0, to_ms=200), four.folder)
        await asyncio.to_thread(four.servers[service].kill)
        await asyncio.to_thread(four.start)
    assert watcher.answer == WRITTEN
    async with asked(four, "show the log", watcher.session_id) as showing:
        pass
    assert showing.answer == WRITTEN, "each call was made once"
