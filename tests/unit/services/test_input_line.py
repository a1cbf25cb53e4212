"""How a line that is not over is drawn."""

import pytest

from services.cli.chat.input_line import rows

BOLD, CODE, END = "\x1b[1m", "\x1b[36m", "\x1b[0m"


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("", [""]),
        ("abcd", ["abcd"]),
        ("abcde", ["abcd", "e"]),
        ("a\tb", ["a   ", "b"]),
        ("ab漢字", ["ab漢", "字"]),
        ("abc漢", ["abc", "漢"]),
        (f"ab{BOLD}cdef{END}g", [f"ab{BOLD}cd", f"{BOLD}ef{END}g"]),
        (f"{CODE}ab{END}cdef", [f"{CODE}ab{END}cd", "ef"]),
    ],
)
def test_rows_are_full_and_keep_their_styles(line: str, taken: list[str]) -> None:
    assert rows(line, 4) == taken


def test_what_is_wider_than_the_terminal_has_a_row_of_its_own() -> None:
    assert rows("漢字", 1) == ["漢", "字"]
