"""What the soak makes of what it has measured."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.bench.soak import Figures, Sample

CI = Path(__file__).parents[2] / ".ci" / "run"


def sampled(growth: float = 0.0, opened: float = 0.0) -> list[Sample]:
    """Ten minutes, after a start in which much is loaded."""
    return [
        Sample(at, 100 * (1 + growth * at / 600) if at > 60 else 50, 50 + int(opened * at / 600))
        for at in map(float, range(0, 601, 5))
    ]


def test_what_stays_as_it_is_reaches_the_bars() -> None:
    figures = Figures.of(sampled(), 598, 600)
    assert (figures.minutes, figures.growth, figures.missed) == (10.0, 0.0, [])
    assert figures.status == 0


@pytest.mark.parametrize(
    ("samples", "turns", "told", "status"),
    [
        (sampled(growth=0.12), 600, ["memory grew by 6."], 1),
        (sampled(opened=6), 600, ["descriptors went from"], 1),
        (sampled(), 500, ["500 of 600 turns were had"], os.EX_TEMPFAIL),
        (sampled(growth=0.12), 500, ["memory grew by 6.", "500 of 600 turns were had"], 1),
    ],
)
def test_what_misses_a_bar_is_told(
    samples: list[Sample], turns: int, told: list[str], status: int
) -> None:
    figures = Figures.of(samples, turns, 600)
    assert [bar for bar, part in zip(figures.missed, told, strict=True) if part not in bar] == []
    assert figures.status == status


@pytest.mark.parametrize(
    ("first", "again", "status", "tries"),
    [(0, 0, 0, 1), (1, 0, 1, 1), (75, 0, 0, 2), (75, 75, 75, 2), (75, 1, 1, 2)],
)
def test_only_too_few_turns_are_tried_again(
    first: int, again: int, status: int, tries: int, tmp_path: Path
) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\necho "$@" >>tries\n[ -s again ] && exit {again}\necho >again\nexit {first}\n'
    )
    python.chmod(0o755)
    begun = CI.read_text("utf-8").index("\nsoak() {")
    function = CI.read_text("utf-8")[begun:].partition("\n}\n")[0] + "\n}\n"
    ended = subprocess.run(["bash", "-euc", f"{function}soak"], cwd=tmp_path, check=False)
    told = (tmp_path / "tries").read_text("utf-8").splitlines()
    assert (ended.returncode, len(told)) == (status, tries)
    assert set(told) == {"-m tests.bench.soak --minutes 10"}
