"""What the check of an item scores, by its exit code and its last line."""

import pytest

from scheduler_service.batches.runner import result_of
from scheduler_service.clients.batches import TurnReport


@pytest.mark.parametrize(
    ("printed", "exit_code", "score"),
    [
        ("2 tests ran\n0.5\n", 0, 0.5),
        ("0", 0, 0),
        ("", 0, 1),
        ("ok", 0, 1),
        ("5", 0, 1),
        ("-nan", 0, 0),
        ("1", 3, 0),
        ("1", None, None),
    ],
)
def test_the_last_line_is_the_score(
    printed: str, exit_code: int | None, score: float | None
) -> None:
    checked = TurnReport("completed", printed, exit_code=exit_code)
    assert result_of(TurnReport("completed"), checked).score == score
