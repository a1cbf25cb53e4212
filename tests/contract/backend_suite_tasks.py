"""The tasks of the bundled environment, in boxes of every backend and without a model."""

import asyncio
from pathlib import Path

from services.home.batches.dataset import DatasetItem
from services.home.batches.environment import TERMINAL, find_environment, load_tasks
from services.home.paths import HomePaths
from tests.support.boxes import Console
from tests.support.terminal_tasks import PARTS, SOLUTIONS


async def score(console: Console, task: DatasetItem, change: str) -> float:
    """The score of a change, as the scheduler reads it."""
    folder = await console.output("mktemp -d")
    for script in (task.setup, change):
        await console.output(script or ":", cwd=folder)
    recorder = await console.run(task.check, cwd=folder)
    if (await recorder.exit()).code:
        return 0
    last = recorder.stdout.rstrip().rpartition("\n")[2]
    return float(last) if last else 1


class TaskSuite:
    """Run against each backend by tests/contract/test_backends.py."""

    async def test_tasks_are_scored(self, console: Console, tmp_path: Path) -> None:
        environment = await asyncio.to_thread(
            find_environment, HomePaths(tmp_path, tmp_path), TERMINAL
        )
        loaded = await asyncio.to_thread(load_tasks, environment)
        tasks = [each for each in loaded if isinstance(each, DatasetItem)]
        assert [each.id for each in tasks] == list(SOLUTIONS)
        for task in tasks:
            part, expected = PARTS.get(task.id, ("", 0))
            scores = [await score(console, task, each) for each in ("", part, SOLUTIONS[task.id])]
            assert scores == [0, expected, 1], task.id
