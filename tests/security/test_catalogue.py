"""Every attack has a number by which its tests are found, and proofs that it could succeed."""

import importlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from tests.markdown import ROOT
from tests.security.catalogue import ATTACKS, BACKENDS, EXEMPTIONS, LEAKS, Attack
from tests.security.report import Report, backend_of, is_one_of, table

ALWAYS_MADE = {2, 11, 12, 16, 17, 18, 21, 23, 25}
"""Attacks on what the supervisor and the executor hold themselves."""


def find(name: str) -> object:
    """What a test's name stands for."""
    file, *rest = name.split("::")
    found: ModuleType | object = importlib.import_module(
        f"tests.{file.removesuffix('.py').replace('/', '.')}"
    )
    for part in rest:
        found = getattr(found, part)
    return found


def test_there_are_twenty_five() -> None:
    assert [attack.number for attack in ATTACKS] == list(range(1, 26))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: str(attack.number))
def test_each_is_made_and_could_succeed(attack: Attack) -> None:
    assert attack.tests
    assert attack.mutations
    assert all(callable(find(name)) for name in (*attack.tests, *attack.mutations))


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """Every test that pytest would run, by its whole name."""
    names = {name for attack in ATTACKS for name in (*attack.tests, *attack.mutations)}
    files = sorted({f"tests/{name.partition('::')[0]}" for name in names})
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", *files]
    found = subprocess.run(collect, cwd=ROOT, check=True, capture_output=True, text=True)
    return [line for line in found.stdout.splitlines() if "::" in line]


def runs_on(collected: list[str], names: tuple[str, ...]) -> set[str]:
    """The backends on which there is one of these tests."""
    found = (name for name in collected if is_one_of(Path(name.partition("[")[0]), names))
    return set(map(backend_of, found))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: str(attack.number))
def test_each_is_made_everywhere_but_where_a_reason_is_given(
    attack: Attack, collected: list[str]
) -> None:
    exempt = [one for one in EXEMPTIONS if attack.number in one.numbers]
    left_out = [backend for one in exempt for backend in one.backends]
    assert len(left_out) == len(set(left_out)), "two reasons"
    assert {"bubblewrap", "docker"}.isdisjoint(left_out)
    if attack.number in ALWAYS_MADE:
        assert set(left_out) <= {"local"}
    assert runs_on(collected, attack.tests) - {""} == set(BACKENDS) - set(left_out)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: str(attack.number))
def test_each_of_the_tests_is_there_to_be_run(attack: Attack, collected: list[str]) -> None:
    there = {name.partition("[")[0].removeprefix("tests/") for name in collected}
    assert {*attack.tests, *attack.mutations} <= there


def test_leaks_are_counted() -> None:
    assert all(callable(find(name)) for name in LEAKS)


def test_the_report_tells_what_passed_and_what_did_not() -> None:
    first, second = ATTACKS[21].tests[0], ATTACKS[21].mutations[0]
    outcomes: dict[str, tuple[str, list[str]]] = {
        f"tests/{first}[docker]": ("passed", ["20 claims"]),
        f"tests/{second}[docker]": ("passed", []),
        f"tests/{first}[bubblewrap]": ("passed", ["20 claims"]),
        f"tests/{second}[bubblewrap]": ("failed", []),
    }
    cells = cells_of(22, table(outcomes))
    assert cells[2:4] == ["FAILED: 20 claims", "holds: 20 claims"]
    assert set(cells[4:]) == {""}


def test_the_report_of_a_run_that_was_stopped_is_told_from_that_of_a_whole_one(
    tmp_path: Path,
) -> None:
    first, second = (
        f"tests/{name}[docker]" for name in (*ATTACKS[21].tests, *ATTACKS[21].mutations)
    )
    kept, page = tmp_path / "kept.jsonl", tmp_path / "page.md"
    stopped, beside = (Report(kept, "full abc", "abc of 2031-01-01", page) for _ in range(2))
    for report in (stopped, beside):
        for name in (first, second):
            report.pytest_itemcollected(Named(name))
    end(stopped, first)
    stopped.pytest_sessionfinish()
    assert "of the version abc of 2031-01-01" in page.read_text()
    assert cells_of(22, page.read_text())[2:4] == ["NOT RUN", "NOT ALL RUN"]
    end(beside, second)
    beside.pytest_sessionfinish()
    assert cells_of(22, page.read_text())[2:4] == ["NOT RUN", "holds"]
    other = Report(kept, "full def", "def of 2031-01-02", page)
    other.pytest_sessionfinish()
    assert cells_of(22, page.read_text())[2:4] == ["NOT RUN", "NOT RUN"]


@dataclass
class Named:
    """As much of a test as the report asks for."""

    nodeid: str


def end(report: Report, name: str) -> None:
    """Has a test pass."""
    for when in ("setup", "call", "teardown"):
        report.pytest_runtest_logreport(
            pytest.TestReport(name, ("", 0, ""), {}, "passed", None, when)
        )


def cells_of(number: int, text: str) -> list[str]:
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {number} ")]
    return [cell.strip() for cell in row.strip("|").split("|")]
