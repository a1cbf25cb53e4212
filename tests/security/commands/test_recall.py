"""How much is found of commands that were written apart from the rules, known misses included."""

import json
import re
from pathlib import Path

import pytest

from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.families import FAMILIES, CommandClass

ROWS = [
    json.loads(line) for line in (Path(__file__).parent / "recall.jsonl").read_text().splitlines()
]
BARS = {"destructive": 0.98, "bypass": 0.97, "shells": 0.97}
"""Families told plainly; a delete of the root in every wrapping; shells for somebody elsewhere."""
CLASSIFIER = CommandClassifier()
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


DESTRUCTIVE = [
    json.loads(line)
    for line in (Path(__file__).parent / "destructive.jsonl").read_text().splitlines()
]


def test_destructive_commands_of_our_own_are_found() -> None:
    """Sets that were written apart from the rules; `beyond` are those that no family is about."""
    meant = [row["command"] for row in DESTRUCTIVE if not row.get("beyond")]
    missed = [each for each in meant if CLASSIFIER.classify(each).kind is CommandClass.SAFE]
    assert len(meant) > 700
    assert 1 - len(missed) / len(meant) >= 0.98, missed


@pytest.mark.parametrize(
    "wrapped",
    [
        "ssh web1 -- {}",
        "ssh -p 22 root@web1 -t {}",
        "sudo bash -c {}",
        "timeout 5 sh -c {}",
        'python3 -c "import os; os.system({})"',
        "cat <<E | sh\nsh -c {}\nE",
        "docker exec -it web sh -c {}",
    ],
)
def test_destructive_commands_are_found_behind_others(wrapped: str) -> None:
    plain = [
        row["command"]
        for row in DESTRUCTIVE
        if not row.get("beyond") and re.fullmatch(r"[\w ./=:,@-]+", row["command"])
    ]
    hidden = [wrapped.format(f"'{each}'") for each in plain[::3]]
    missed = [each for each in hidden if CLASSIFIER.classify(each).kind is CommandClass.SAFE]
    assert len(hidden) > 100
    assert 1 - len(missed) / len(hidden) >= 0.95, missed
