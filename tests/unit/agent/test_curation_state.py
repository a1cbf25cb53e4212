"""What `.curator_state` says, which anybody may write."""

import pytest

from agent_service.profiles.curation.state import CuratorState
from agent_service.profiles.skills.usage import Usage
from services.validation import lenient


@pytest.mark.parametrize(
    ("told", "epoch"),
    [(7, 7), (2**53 - 1, 2**53 - 1), (2**53, 0), (2**63 - 1, 0), (-1, 0), (7.0, 0), (True, 0)],
)
def test_an_epoch_that_no_run_has_had_is_none(told: object, epoch: int) -> None:
    assert lenient({"last_run_epoch": told}, CuratorState).last_run_epoch == epoch


@pytest.mark.parametrize("told", [2**63, 10**30, -1])
def test_a_count_that_the_wire_cannot_carry_is_none(told: int) -> None:
    assert lenient({"run_count": told}, CuratorState).run_count == 0
    assert lenient({"use_count": told, "view_count": 3}, Usage) == Usage(view_count=3)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "x"])
def test_a_time_that_is_none_in_utc_is_none(text: str) -> None:
    assert CuratorState(last_run_at=text).last_run_time is None
