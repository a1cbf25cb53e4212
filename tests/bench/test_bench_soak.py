"""What the soak makes of what it has measured."""

import os

import pytest

from tests.bench.soak import Figures, Sample


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
