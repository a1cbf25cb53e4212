"""A git repository with two wrong functions, tests of both, and a later commit that mends them."""

import subprocess
from pathlib import Path
from random import Random

from services.home.batches.swe_task import SweTask

TEST = "import calc, sys\nsys.exit(not calc.{name}(2, 3) == {result})\n"
BROKEN = "def add(a, b):\n    return 0\n\n\ndef multiply(a, b):\n    return 0\n"
ADDS = BROKEN.replace("return 0", "return a + b", 1)
FIXED = ADDS.replace("return 0", "return a * b")


def git(folder: Path, *arguments: str) -> str:
    """Run git; return what it prints."""
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def calculator_task(folder: Path, noise_bytes: int = 1) -> SweTask:
    """Make the repository; return the task to mend it."""
    (folder / "tests").mkdir(parents=True)
    (folder / "calc.py").write_text(BROKEN)
    # Incompressible, so that archives are as large.
    for noise in ("noise", "tests/noise"):
        (folder / noise).write_bytes(Random(noise).randbytes(noise_bytes))
    for name, result in (("add", 5), ("multiply", 6)):
        (folder / "tests" / f"check_{name}.py").write_text(TEST.format(name=name, result=result))
    # Releases of many projects are without their tests.
    (folder / ".gitattributes").write_text("tests export-ignore\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "start")
    commit = git(folder, "rev-parse", "HEAD")
    (folder / "calc.py").write_text(FIXED)
    git(folder, "commit", "-qam", "the solution, which nobody may see")
    tests = [f"PYTHONPATH=. python3 tests/check_{name}.py" for name in ("add", "multiply")]
    return SweTask("t1", str(folder), commit, "Fix calc.", tests, test_timeout_s=3)


def write_calculator(text: str) -> str:
    """Return the command that writes the program."""
    return f"cat > calc.py <<'END'\n{text}END"
