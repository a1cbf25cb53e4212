"""Writes docs/security-tests.md from a run: `pytest -p tests.security.report tests/security …`.

What became of each test is kept as it happens, so that a run that takes hours can be stopped: later
runs of the same commit at the same sizes add to it, also those at the same time, and what is run
again counts as it ended last.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from tests.markdown import ROOT
from tests.security.catalogue import ATTACKS, BACKENDS, EXEMPTIONS, LEAKS, Exemption
from tests.security.scale import scale, scale_name

PAGE = ROOT / "docs" / "security-tests.md"
KEPT = ROOT / "build" / "security-tests.jsonl"
_NOT_RUN = "NOT RUN"
"""Where the tests of an attack were left out or skipped."""
_NOT_ALL_RUN = "NOT ALL RUN"

Outcomes = Mapping[str, tuple[str, list[str]]]
"""By the test's whole name: how it ended, and its figures."""

_HEAD = """# Adversarial tests

`make soak-attacks` attacks the executor in twenty-five ways and writes this page. `make test`
makes the same attacks at a smaller scale. Each attack is made once more with its control
switched off, and must succeed there: so each test can fail. `tests/security/catalogue.py`
names the tests of each number.

This page is from runs of the version {version} with `HERMES_SCALE={scale}`, at these sizes.
What was run more than once stands as it ended last; what measures a share of the machine is run
again with nothing beside it.

{sizes}

"""
_EXEMPT = """
An empty cell is an attack that is not made there, for these reasons:

"""


class Item(Protocol):
    """A test that pytest has found."""

    @property
    def nodeid(self) -> str: ...


class Report:
    """Collects how tests end, and keeps it in a file that begins with what it is of."""

    def __init__(self, kept: Path, of: str, version: str, page: Path = PAGE) -> None:
        self._path = kept
        self._page = page
        self._version = version
        self._begun: dict[str, tuple[str, list[str]]] = {}
        self._collected: set[str] = set()
        kept.parent.mkdir(exist_ok=True)
        goes_on = self._lines()[:1] == [json.dumps(of)]
        self._kept = kept.open("a" if goes_on else "w", encoding="utf-8", buffering=1)
        if not goes_on:
            self._keep(of)

    def pytest_itemcollected(self, item: Item) -> None:
        """There is such a test, whether or not this run makes it."""
        self._collected.add(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test has ended."""
        known, figures = self._begun.get(report.nodeid, ("passed", []))
        if report.outcome != "passed":
            known = report.outcome
        if report.when == "call":
            figures = [str(value) for name, value in report.user_properties if name == "figure"]
        self._begun[report.nodeid] = (known, figures)
        if report.when == "teardown":
            self._keep([report.nodeid, *self._begun.pop(report.nodeid)])

    def pytest_sessionfinish(self) -> None:
        """All tests have ended."""
        self._kept.close()
        outcomes: Outcomes = {name: (_NOT_RUN, []) for name in self._collected}
        outcomes = {**outcomes, **dict(map(_outcome, self._lines()[1:]))}
        # A process of tests that has died leaves some without their last phase.
        outcomes = {**outcomes, **{name: ("failed", []) for name in self._begun}}
        self._page.write_text(page(outcomes, self._version))

    def _lines(self) -> list[str]:
        return self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []

    def _keep(self, line: object) -> None:
        self._kept.write(f"{json.dumps(line)}\n")


def _outcome(line: str) -> tuple[str, tuple[str, list[str]]]:
    name, outcome, figures = json.loads(line)
    return name, (outcome, figures)


def pytest_configure(config: pytest.Config) -> None:
    """Have this run reported; where several processes run the tests, one hears of all."""
    if not hasattr(config, "workerinput"):
        command = ("git", "show", "--no-patch", "--format=%H%n%h of %cs", "HEAD")
        shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        commit, version = shown.stdout.splitlines()
        report = Report(KEPT, f"{scale_name()} {commit}", version)
        config.pluginmanager.register(report, "security report")


def page(outcomes: Outcomes, version: str) -> str:
    """All of it."""
    sizes = "\n".join(f"- {size}" for size in scale().described())
    head = _HEAD.format(version=version, scale=scale_name(), sizes=sizes)
    return head + table(outcomes) + _EXEMPT + "".join(map(_reason, EXEMPTIONS))


def _reason(exempt: Exemption) -> str:
    numbers = ", ".join(map(str, sorted(exempt.numbers)))
    return f"- **{', '.join(exempt.backends)}** ({numbers}): {exempt.why}.\n"


def table(outcomes: Outcomes) -> str:
    """A row for each attack, a column for each backend."""
    rows = [(str(a.number), a.title, (*a.tests, *a.mutations)) for a in ATTACKS]
    rows.append(("", "What sandboxes that come and go leave behind", LEAKS))
    head = ["#", "Attack", *BACKENDS]
    lines = [head, ["---"] * len(head)]
    exempt = {(str(n), b) for one in EXEMPTIONS for n in one.numbers for b in one.backends}
    exempt |= {("", backend) for backend in BACKENDS[2:]}
    lines += [
        [
            number,
            title,
            *(
                _cell(outcomes, names, backend, "" if (number, backend) in exempt else _NOT_RUN)
                for backend in BACKENDS
            ),
        ]
        for number, title, names in rows
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(outcomes: Outcomes, names: tuple[str, ...], backend: str, otherwise: str) -> str:
    found = [
        outcome
        for name, outcome in outcomes.items()
        if is_one_of(Path(name.partition("[")[0]), names) and backend_of(name) == backend
    ]
    ended = {outcome for outcome, _ in found} - {"skipped"}
    if ended <= {_NOT_RUN}:
        return otherwise
    figures = dict.fromkeys(figure for _, figures in found for figure in figures)
    verdict = "FAILED" if "failed" in ended else _NOT_ALL_RUN if _NOT_RUN in ended else "holds"
    return f"{verdict}: {'; '.join(figures)}" if figures else verdict


def is_one_of(path: Path, names: tuple[str, ...]) -> bool:
    """Whether a test is one of those."""
    return str(path).removeprefix("tests/") in names


def backend_of(name: str) -> str:
    """By the test's parameters, or by its file where that is about one."""
    parameters = re.findall(r"[a-z_]+", name.partition("[")[2])
    named = [backend for backend in BACKENDS if backend in parameters]
    if named:
        return named[0]
    about = [backend for backend in BACKENDS if f"test_{backend}_" in name]
    return about[0] if about else ""
