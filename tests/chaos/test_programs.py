"""A program of the model goes on when the services are killed: each of its calls is made once."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.chaos.crashes import RULES, WRITTEN, Point, asked, reach
from tests.e2e.backends import BACKENDS, need_backend, sandboxed
from tests.e2e.deployment import SERVICES, Deployment, four_processes, one_process, running
from tests.e2e.model import ModelProcess, model_process

POINTS = (
    Point("tool_started", to_ms=60),
    Point("tool_progress", from_ms=0, to_ms=20),
    Point("tool_progress", from_ms=100, to_ms=280),
    Point("tool_progress", from_ms=290, to_ms=340),
    Point("tool_progress", count=3, from_ms=0, to_ms=200),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelProcess]:
    """A model that asks for a program, and outlives every crash."""
    with model_process(tmp_path_factory.mktemp("model"), RULES) as process:
        yield process


@pytest.fixture(scope="module", params=BACKENDS)
def up(
    request: pytest.FixtureRequest, model: ModelProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """`hermes up` on each backend, which every test kills and starts again."""
    backend = need_backend(request.param, tmp_path_factory.mktemp("probe"))
    folder = tmp_path_factory.mktemp(backend)
    with running(one_process(folder, model.url, sandboxed(backend))) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def four(model: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Four processes, of which every test kills one and starts it again."""
    need_backend("bubblewrap", tmp_path_factory.mktemp("probe"))
    folder = tmp_path_factory.mktemp("four")
    with running(four_processes(folder, model.url, sandboxed("bubblewrap"))) as deployment:
        yield deployment


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
