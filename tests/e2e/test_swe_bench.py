"""Rows of SWE-bench become tasks by the program of docs/research.md, and are scored."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import one_process
from tests.e2e.home import REPOSITORY
from tests.e2e.model import calls, model_process, rule, terminal_call
from tests.support.calculator import ADDS, FIXED, calculator_task, write_calculator
from tests.support.markdown import page

TEST_PATCH = """\
diff --git a/tests/test_calc.py b/tests/test_calc.py
new file mode 100644
--- /dev/null
+++ b/tests/test_calc.py
@@ -0,0 +1,12 @@
+import unittest
+import calc
+
+class TestCalc(unittest.TestCase):
+    def test_multiply(self):
+        self.assertEqual(calc.multiply(2, 3), 6)
+
+    def test_add(self):
+        self.assertEqual(calc.add(2, 3), 5)
+
+    def test_zero(self):
+        self.assertEqual(calc.add(0, 0), 0)
"""
# Neither GitHub nor pytest is there.
OFFLINE = {
    "https://github.com/": "",
    "python3 -m venv .venv && .venv/bin/pip install -q -e . pytest": "touch ready",
    ".venv/bin/python -m pytest -q": "python3 -m unittest -q",
}


def program() -> str:
    """The program in the documentation, for a machine without a network."""
    blocks = page(REPOSITORY / "docs/research.md").blocks("python")
    text = next(each.text for each in blocks if "FAIL_TO_PASS" in each.text)
    for shown, used in OFFLINE.items():
        assert text.count(shown) == 1
        text = text.replace(shown, used)
    return text


def test_rows_of_swe_bench_are_tasks(backend: str, tmp_path: Path) -> None:
    task = calculator_task(tmp_path / "calc")
    suite = "tests.test_calc.TestCalc"
    failing = [f"{suite}.test_add", f"{suite}.test_multiply"]
    row = {
        "repo": str(tmp_path / "calc"),
        "base_commit": task.commit,
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": json.dumps(failing),
        "PASS_TO_PASS": [f"{suite}.test_zero"],
        "patch": "is not shown",
    }
    changes = {"whole": write_calculator(FIXED), "part": write_calculator(ADDS)}
    rows = [row | {"instance_id": name, "problem_statement": f"{name}: fix"} for name in changes]
    lines = "\n".join(map(json.dumps, rows))
    argv = (sys.executable, "-c", program())
    tasks = subprocess.run(argv, input=lines, capture_output=True, text=True, check=True).stdout
    rules = [
        rule(
            f"{name}: fix",
            calls(terminal_call(change, workdir="repository")),
            {"text": "I did it."},
        )
        for name, change in changes.items()
    ]
    with model_process(tmp_path, rules) as model:
        home = one_process(tmp_path / "up", model.url, sandboxed(backend)).client
        environment = home.path / "environments" / "hermes_swe_env.jsonl"
        environment.parent.mkdir()
        environment.write_text(tasks)
        found = home.run("rl", "evaluate", "hermes_swe_env", "--json").json
    assert {each["id"]: each["scores"] for each in found["results"]} == {"whole": [1], "part": [0]}
