"""SWE tasks: a right change scores 1, none 0, half of it the half, and tampering gains nothing."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from services.cli.main import parser_of
from services.cli.rl.command import COMMAND
from services.errors import InvalidArgument
from services.home.batches.swe_task import SweTask, task_item
from tests.support.calculator import ADDS, BROKEN, FIXED, calculator_task, git, write_calculator
from tests.support.requirements import require


@pytest.fixture
def task(tmp_path: Path) -> SweTask:
    return calculator_task(tmp_path / "origin")


def _in_sandbox(folder: Path, script: str) -> str:
    """Run a script where only a folder can be written and there is no network."""
    bwrap = shutil.which("bwrap")
    require("bubblewrap", bwrap is not None, "bwrap is not on PATH")
    assert bwrap
    command = [bwrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
    command += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    command += ["--bind", str(folder), str(folder), "--chdir", str(folder), "sh", "-c", script]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _score(task: SweTask, workspace: Path, change: str) -> float:
    item = task_item(task)
    workspace.mkdir()
    _in_sandbox(workspace, item.setup)
    if change:
        _in_sandbox(workspace / "repository", change)
    return float(_in_sandbox(workspace, item.check).splitlines()[-1])


@pytest.mark.parametrize(
    ("change", "score"),
    [
        ("", 0),
        (write_calculator(FIXED), 1),
        (write_calculator(ADDS), 0.5),
        ("for f in tests/*; do echo > $f; done", 0),
        ("rm -r tests; ln -s /usr tests", 0),
        ("echo 'import os; os._exit(0)' > sitecustomize.py", 0),
        ("rm -r ../repository/* ../repository/.git", 0),
    ],
)
def test_the_tests_that_pass_are_the_score(
    task: SweTask, tmp_path: Path, change: str, score: float
) -> None:
    assert _score(task, tmp_path / "workspace", change) == score


def test_later_commits_are_not_there(task: SweTask, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    _in_sandbox(tmp_path / "workspace", task_item(task).setup)
    repository = tmp_path / "workspace" / "repository"
    assert git(repository, "log", "--all", "--format=%s") == "start"
    assert (repository / "calc.py").read_text() == BROKEN
    assert git(repository, "status", "--porcelain") == ""


def test_tasks_become_items_and_bad_lines_are_named(
    task: SweTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "tasks.jsonl", tmp_path / "items.jsonl"
    names = ("id", "repository", "commit", "prompt", "tests")
    lines = [json.dumps({name: getattr(task, name) for name in names}), "{}"]
    source.write_text("\n".join(lines))
    given = parser_of("rl").parse_args(["items", str(source), "--out", str(out)])
    assert COMMAND.run(given) == 1
    assert f"{source}:2:" in capsys.readouterr().err
    [item] = map(json.loads, out.read_text().splitlines())
    assert item["id"] == "t1"
    assert item["prompt"].startswith("Fix calc.")
    assert {*item} == {"id", "prompt", "setup", "check"}


def test_a_repository_that_is_too_large_is_refused(task: SweTask) -> None:
    folder = Path(task.repository)
    (folder / "noise").write_bytes(os.urandom(80_000))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "more")
    large = SweTask("t2", task.repository, git(folder, "rev-parse", "HEAD"), "p", task.tests)
    with pytest.raises(InvalidArgument, match="at most 65,536 are possible; give a URL"):
        task_item(large)
