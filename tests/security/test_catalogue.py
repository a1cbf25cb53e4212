"""Every attack has a number by which its tests are found, and proofs that it could succeed."""

import importlib
from types import ModuleType

import pytest

from tests.security.catalogue import ATTACKS, LEAKS, Attack
from tests.security.report import table


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
    (row,) = [line for line in table(outcomes).splitlines() if line.startswith("| 22 ")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:4] == ["FAILED: 20 claims", "holds: 20 claims"]
    assert set(cells[4:]) == {""}
