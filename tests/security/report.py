"""Writes docs/security-tests.md from a run: `pytest -p tests.security.report tests/security …`."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.markdown import ROOT
from tests.security.catalogue import ATTACKS, LEAKS
from tests.security.scale import scale_name

PAGE = ROOT / "docs" / "security-tests.md"
BACKENDS = ("bubblewrap", "docker", "kubernetes", "modal", "singularity", "ssh", "local")

Outcomes = Mapping[str, tuple[str, list[str]]]
"""By the test's whole name: how it ended, and its figures."""

_HEAD = """# Adversarial tests

`make soak` attacks the executor in twenty-five ways and writes this page. `make test` makes the
same attacks at a smaller scale (`HERMES_SCALE=ci`). Each attack is made once more with its control
switched off, and must succeed there: so each test can fail. `tests/security/catalogue.py` names
the tests of each number.

This page is from a run with `HERMES_SCALE={scale}`.

"""
_EXCEPTIONS = """
An empty cell is an attack that is not made there:

- **kubernetes**: walls, limits and networks (1, 3 to 8) are those of your nodes. No cluster can be
  had where these tests run; a stand-in for its API runs each pod as a container.
- **modal**: walls, limits and networks are those of the provider.
- **singularity**: walls and limits have tests of their own, in
  `tests/security/test_process_boxes.py`.
- **ssh**, **local**: nothing isolates commands from their machine (1, 3 to 8). What holds there is
  what the supervisor and the executor hold.
- 9, 10, 13, 22 and 24 are the executor's own, whatever makes its sandboxes.
"""


class Report:
    """Collects how tests end."""

    def __init__(self) -> None:
        self.outcomes: dict[str, tuple[str, list[str]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test has ended."""
        known, figures = self.outcomes.get(report.nodeid, ("passed", []))
        if report.outcome != "passed":
            known = report.outcome
        if report.when == "call":
            figures = [str(value) for name, value in report.user_properties if name == "figure"]
        self.outcomes[report.nodeid] = (known, figures)

    def pytest_sessionfinish(self) -> None:
        """All tests have ended."""
        PAGE.write_text(_HEAD.format(scale=scale_name()) + table(self.outcomes) + _EXCEPTIONS)


def pytest_configure(config: pytest.Config) -> None:
    """Have this run reported."""
    config.pluginmanager.register(Report(), "security report")


def table(outcomes: Outcomes) -> str:
    """A row for each attack, a column for each backend."""
    rows = [(str(a.number), a.title, (*a.tests, *a.mutations)) for a in ATTACKS]
    rows.append(("", "What sandboxes that come and go leave behind", LEAKS))
    head = ["#", "Attack", *BACKENDS]
    lines = [head, ["---"] * len(head)]
    lines += [
        [number, title, *(_cell(outcomes, names, backend) for backend in BACKENDS)]
        for number, title, names in rows
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(outcomes: Outcomes, names: tuple[str, ...], backend: str) -> str:
    found = [
        outcome
        for name, outcome in outcomes.items()
        if _is_one_of(Path(name.partition("[")[0]), names) and _backend_of(name) == backend
    ]
    ended = {outcome for outcome, _ in found} - {"skipped"}
    if not ended:
        return ""
    figures = dict.fromkeys(figure for _, figures in found for figure in figures)
    verdict = "holds" if ended == {"passed"} else "FAILED"
    return f"{verdict}: {'; '.join(figures)}" if figures else verdict


def _is_one_of(path: Path, names: tuple[str, ...]) -> bool:
    return str(path).removeprefix("tests/") in names


def _backend_of(name: str) -> str:
    """By the test's parameters, or by its file where that is about one."""
    parameters = re.findall(r"[a-z_]+", name.partition("[")[2])
    named = [backend for backend in BACKENDS if backend in parameters]
    if named:
        return named[0]
    about = [backend for backend in BACKENDS if f"test_{backend}_" in name]
    return about[0] if about else ""
