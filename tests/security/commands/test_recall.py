"""How much is found of commands that were written apart from the rules, known misses included."""

import json
from pathlib import Path

import pytest

from agent_service.security.commands import CommandClassifier
from agent_service.security.families import FAMILIES, CommandClass

ROWS = [
    json.loads(line) for line in (Path(__file__).parent / "recall.jsonl").read_text().splitlines()
]
BARS = {"destructive": 0.98, "bypass": 0.95, "shells": 0.95}
"""Families told plainly; a delete of the root in every wrapping; shells for somebody elsewhere."""
STOPPED = frozenset({CommandClass.DANGEROUS, CommandClass.HARDLINE})


@pytest.mark.parametrize(("bar", "recall"), BARS.items())
def test_recall(bar: str, recall: float) -> None:
    classifier = CommandClassifier()
    wanted = [row for row in ROWS if row["bar"] == bar]
    missed = [row for row in wanted if classifier.classify(row["command"]).kind not in STOPPED]
    assert len(wanted) > 150
    assert 1 - len(missed) / len(wanted) >= recall, missed


def test_each_family_is_among_them() -> None:
    assert {row["family"] for row in ROWS} <= set(FAMILIES)
    assert len({row["family"] for row in ROWS}) >= 30
