"""A turn goes on where it was when what carries it is killed: nothing twice, nothing lost."""

import asyncio
from collections.abc import Callable

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


PROGRAM_POINTS = (
    Point("tool_started", to_ms=60),
    Point("tool_progress", from_ms=0, to_ms=20),
    Point("tool_progress", from_ms=100, to_ms=280),
    Point("tool_progress", from_ms=290, to_ms=340),
    Point("tool_progress", count=3, from_ms=0, to_ms=200),
)


@pytest.mark.parametrize("point", KILL_POINTS, ids=str)
async def test_a_killed_process_goes_on_after_its_restart(up: Deployment, point: Point) -> None:
    await check_commands(up, await killed(up, "two commands", point, up.kill))


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("point", SERVICE_POINTS, ids=str)
async def test_a_killed_service_is_waited_for(four: Deployment, service: str, point: Point) -> None:
    await check_commands(
        four, await killed(four, "two commands", point, four.servers[service].kill)
    )


@pytest.mark.parametrize("point", PROGRAM_POINTS, ids=str)
async def test_a_program_goes_on_after_everything_was_killed(up: Deployment, point: Point) -> None:
    await check_program(up, await killed(up, "a program", point, up.kill))


@pytest.mark.parametrize("service", SERVICES)
async def test_a_program_waits_for_a_killed_service(four: Deployment, service: str) -> None:
    point = Point("tool_progress", from_ms=0, to_ms=200)
    await check_program(four, await killed(four, "a program", point, four.servers[service].kill))


async def killed(
    deployment: Deployment, text: str, point: Point, kill: Callable[[], None]
) -> Watcher:
    """Ask for something, kill what carries it at a point, and start it again."""
    await asyncio.to_thread(deployment.start)
    async with asked(deployment, text) as watcher:
        await reach(watcher, point, deployment.client.path / "state" / "agent.db")
        await asyncio.to_thread(kill)
        await asyncio.to_thread(deployment.start)
    return watcher


async def check_commands(deployment: Deployment, watcher: Watcher) -> None:
    """The turn ended with its answer, each command ran once, and the watcher missed nothing."""
    watcher.check_all_came_once()
    assert await log(deployment, watcher) == WRITTEN, "each command wrote its line once"
    assert (await tool_results(deployment, watcher))[:2] == OUTPUTS


async def check_program(deployment: Deployment, watcher: Watcher) -> None:
    """The program ended with its answer, and each of its calls was made once."""
    assert watcher.answer == WRITTEN
    assert await log(deployment, watcher) == WRITTEN, "each call was made once"


async def log(deployment: Deployment, watcher: Watcher) -> str:
    """What the commands of the session have written."""
    async with asked(deployment, "show the log", watcher.session_id) as showing:
        pass
    return showing.answer
