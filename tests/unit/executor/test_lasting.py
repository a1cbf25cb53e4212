"""The age of sandboxes across executors, on clocks that somebody sets meanwhile."""

from pathlib import Path

import pytest

from executor_service.claims.lasting import LastingClock
from executor_service.journal import Journal
from tests.fakes.clock import ManualClock

MOST_AWAY_S = 1800
NOTED_S = 60
DAY_S = 86_400


async def passed(folder: Path, clock: ManualClock, boot: str, runs_s: float) -> float:
    """What an executor's clock says that runs so long."""
    async with Journal(folder / "journal.db") as journal:
        lasting = LastingClock(clock, journal, boot, MOST_AWAY_S)
        await lasting.begin()
        await clock.advance(runs_s)
        await lasting.note()
        return lasting.monotonic()


@pytest.mark.parametrize("jump_s", [0, DAY_S, -DAY_S])
async def test_the_same_machine_counts_while_no_executor_runs(tmp_path: Path, jump_s: int) -> None:
    clock = ManualClock()
    assert await passed(tmp_path, clock, "boot", 100) == 100
    await clock.advance(30)
    clock.step_wall(jump_s)
    assert await passed(tmp_path, clock, "boot", 5) == 135


@pytest.mark.parametrize(
    ("jump_s", "away_s"), [(0, 30), (600, 630), (DAY_S, MOST_AWAY_S + NOTED_S), (-DAY_S, 0)]
)
async def test_another_machine_is_believed_within_bounds(
    tmp_path: Path, jump_s: int, away_s: int
) -> None:
    clock = ManualClock()
    assert await passed(tmp_path, clock, "one", 100) == 100
    other = ManualClock(clock.now())
    await other.advance(30)
    other.step_wall(jump_s)
    assert await passed(tmp_path, other, "two", 5) == 105 + away_s


async def test_a_machine_without_a_name_is_always_another(tmp_path: Path) -> None:
    clock = ManualClock()
    await passed(tmp_path, clock, "", 100)
    await clock.advance(30)
    clock.step_wall(-DAY_S)
    assert await passed(tmp_path, clock, "", 5) == 105
