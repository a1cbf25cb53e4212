"""Words on a terminal without a prompt: a block grows in place until it has ended."""

import pyte

from services.cli.chat.screen import COLOURED, Screen

COLUMNS, ROWS = 20, 6


def rows(terminal: pyte.Screen) -> list[str]:
    return [row.rstrip() for row in terminal.display if row.strip()]


def test_a_block_grows_in_place() -> None:
    terminal = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(terminal)
    stream.feed("\x1b[20h")  # a line feed returns the carriage, as with a terminal driver
    screen = Screen(
        stream.feed,
        stream.feed,
        line_styles=COLOURED,
        word_styles=COLOURED,
        columns=lambda: COLUMNS,
        draft_rows=lambda: ROWS - 1,
    )
    screen.words("Paris is a city ")
    assert rows(terminal) == ["Paris is a city"]
    screen.words("with **history**, and")
    assert rows(terminal) == ["Paris is a city with", "history, and"]
    screen.line("Trying again now.")
    assert rows(terminal)[-1] == "Trying again now."
    screen.words("# Over\n\n" + "".join(f"word{number} " for number in range(20)))
    assert rows(terminal)[-1] == "word18 word19"
    screen.end_line()
    screen.line("end")
    assert rows(terminal)[-2:] == ["word18 word19", "end"]


def test_a_row_that_is_too_wide_is_shown_once_it_has_ended() -> None:
    written = list[str]()
    screen = Screen(
        written.append,
        written.append,
        line_styles=COLOURED,
        word_styles=COLOURED,
        columns=lambda: COLUMNS,
        draft_rows=lambda: ROWS - 1,
    )
    screen.words("```\n" + "x" * 30)
    assert written == []
    screen.words("\n```\n")
    assert "".join(written).count("x" * 30) == 1
