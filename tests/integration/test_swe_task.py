"""SWE tasks: a right change scores 1, none 0, half of it the half, and tampering gains nothing."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from services.errors import InvalidArgument
from services.home.batches.swe_task import SweTask, parse_task, task_item
from tests.support.calculator import ADDS, BROKEN, FIXED, calculator_task, git, write_calculator
from tests.support.requirements import require

NOISE_BYTES = 5_000_000
SUBTRACT = """\
diff --git a/more/check_subtract.py b/more/check_subtract.py
new file mode 100644
--- /dev/null
+++ b/more/check_subtract.py
@@ -0,0 +1,2 @@
+import calc, sys
+sys.exit(not calc.subtract(2, 3) == -1)
"""


@pytest.fixture
def task(tmp_path: Path) -> SweTask:
    return calculator_task(tmp_path / "origin")


def _in_sandbox(folder: Path, script: str) -> str:
    """Run a script where only a folder can be written and there is no network."""
    bwrap = shutil.which("bwrap")
    require("bubblewrap", bwrap is not None, "bwrap is not on PATH")
    assert bwrap
    command = [bwrap, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    command += ["--ro-bind", "/", "/"]
    command += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    command += ["--bind", str(folder), str(folder), "--chdir", str(folder), "bash", "-c", script]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    return ran.stdout if ran.returncode == 0 else "0"


def _place(workspace: Path, folder: Path, files: Sequence[str]) -> None:
    """Put an item's files where the agent puts them."""
    for name in files:
        path = workspace / "uploads" / Path(name).name
        path.parent.mkdir(exist_ok=True)
        shutil.copy(folder / name, path)


def _begin(task: SweTask, tmp_path: Path) -> Path:
    """Run the setup of a task; return its workspace."""
    workspace, packed = tmp_path / "workspace", tmp_path / "packed"
    workspace.mkdir()
    packed.mkdir()
    item = task_item(task, packed)
    _place(workspace, packed, item.setup_files)
    _in_sandbox(workspace, item.setup)
    return workspace


def _score(task: SweTask, tmp_path: Path, change: str, *, last: str = "") -> float:
    """Return the score after a change, and after one once the check has its files."""
    workspace = _begin(task, tmp_path)
    if change:
        _in_sandbox(workspace / "repository", change)
    item = task_item(task, tmp_path / "packed")
    _place(workspace, tmp_path / "packed", item.check_files)
    if last:
        _in_sandbox(workspace, last)
    return float(_in_sandbox(workspace, item.check).splitlines()[-1])


@pytest.mark.parametrize(
    ("change", "score"),
    [
        ("", 0),
        (write_calculator(FIXED), 1),
        (write_calculator(ADDS), 0.5),
        ("for f in tests/*; do echo > $f; done", 0),
        ("for f in tests/*; do echo > $f; done; chmod 555 tests", 0),
        ("rm -r tests; ln -s /usr tests", 0),
        ("echo 'import os; os._exit(0)' > sitecustomize.py", 0),
        ("echo 'import os; os._exit(0)' > sitecustomize.py; chmod 555 .", 0),
        ("rm -r ../repository/* ../repository/.git", 0),
    ],
)
def test_the_tests_that_pass_are_the_score(
    task: SweTask, tmp_path: Path, change: str, score: float
) -> None:
    assert _score(task, tmp_path, change) == score


@pytest.mark.parametrize(
    "tampering",
    [
        "rm uploads/tests.0",
        "cd uploads && mkdir tests && touch tests/check_add.py && tar -czf tests.0 tests",
    ],
)
def test_an_archive_that_is_not_the_one_that_was_packed_scores_nothing(
    task: SweTask, tmp_path: Path, tampering: str
) -> None:
    assert _score(task, tmp_path, write_calculator(FIXED), last=tampering) == 0


def test_later_commits_and_archives_are_not_there(tmp_path: Path) -> None:
    workspace = _begin(calculator_task(tmp_path / "origin", NOISE_BYTES), tmp_path)
    assert [path.name for path in workspace.iterdir()] == ["repository"]
    repository = workspace / "repository"
    assert git(repository, "log", "--all", "--format=%s") == "start"
    assert (repository / "calc.py").read_text() == BROKEN
    assert git(repository, "status", "--porcelain") == ""
    assert (repository / "noise").stat().st_size == NOISE_BYTES


def test_names_of_files_need_not_be_utf8(tmp_path: Path) -> None:
    task = calculator_task(tmp_path / "origin")
    (tmp_path / "origin/tests" / os.fsdecode(b"caf\xe9")).touch()
    git(tmp_path / "origin", "add", "-A")
    git(tmp_path / "origin", "commit", "-qm", "more tests")
    task = replace(task, commit="HEAD")
    assert _score(task, tmp_path, write_calculator(BROKEN)) == 0
    assert (tmp_path / "workspace/repository/tests" / os.fsdecode(b"caf\xe9")).exists()


def test_a_patch_adds_tests_that_the_model_does_not_see(task: SweTask, tmp_path: Path) -> None:
    patched = replace(
        task, test_patch=SUBTRACT, tests=["PYTHONPATH=. python3 more/check_subtract.py"]
    )
    cheat = "test ! -e more && mkdir more && echo > more/check_subtract.py"
    right = "test ! -e more && printf 'def subtract(a, b):\\n    return a - b\\n' > calc.py"
    for change, score in ((cheat, 0), (right, 1)):
        folder = tmp_path / str(score)
        folder.mkdir()
        assert _score(patched, folder, change) == score


def test_the_same_task_has_the_same_files(task: SweTask, tmp_path: Path) -> None:
    patched = replace(task, test_patch=SUBTRACT)
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert task_item(patched, one) == task_item(patched, two)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"test_patch": "no patch"}, "git apply"),
        ({"commit": "none"}, "git rev-list"),
        ({"tests": []}, "there are no tests"),
        ({"setup": "x" * 65_536}, "over 65,536 bytes"),
    ],
)
def test_a_task_that_cannot_be_used_is_refused(
    task: SweTask, tmp_path: Path, change: dict[str, object], why: str
) -> None:
    with pytest.raises(InvalidArgument, match=why):
        task_item(replace(task, **change), tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"test_timeout_s": 0}, "test_timeout_s must be at least 1"),
        ({"repository": "~nobody-here/x"}, "begins with the name of a user who is not there"),
    ],
)
def test_a_line_that_is_no_task_is_refused(
    task: SweTask, tmp_path: Path, change: dict[str, object], why: str
) -> None:
    with pytest.raises(InvalidArgument, match=why):
        parse_task(msgspec.json.encode(replace(task, **change)), tmp_path)
