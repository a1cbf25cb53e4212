"""The bundled environment with a model that knows the solutions: every task can be solved."""

import re
from pathlib import Path

import pytest

from services.home.batches.environment import TERMINAL, find_environment, load_tasks
from services.home.paths import HomePaths
from tests.e2e.backends import sandboxed
from tests.e2e.deployment import one_process
from tests.e2e.model import calls, model_process, rule, terminal_call
from tests.support.terminal_tasks import SOLUTIONS


@pytest.mark.timeout(180)
def test_every_task_can_be_solved(backend: str, tmp_path: Path) -> None:
    tasks = load_tasks(find_environment(HomePaths(tmp_path, tmp_path), TERMINAL))
    rules = [
        rule(
            re.escape(task.prompt), calls(terminal_call(SOLUTIONS[task.id])), {"text": "I did it."}
        )
        for task in tasks
    ]
    with model_process(tmp_path, rules) as model:
        home = one_process(tmp_path / "up", model.url, sandboxed(backend)).client
        found = home.run("rl", "evaluate", TERMINAL, "--json", timeout_s=150).json
    scores = {each["id"]: each["scores"] for each in found["results"]}
    assert scores == {task.id: [1] for task in tasks}
    assert found["mean_reward"] == 1
