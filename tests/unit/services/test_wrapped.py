"""Messages on a terminal break between words."""

import io

import pytest

from services.cli.console import wrap


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two three"]),
        ("one two three four five", ["one two three four", "five"]),
        ("model    it is a long name", ["model    it is a", "         long name"]),
        (
            "✗ model   it is\n          a long name",
            ["✗ model   it is", "          a long", " " * 10 + "name"],
        ),
        ("a /very/long/path/that/is-copied", ["a", "/very/long/path/that/is-copied"]),
    ],
)
def test_lines_break_between_words_below_their_label(
    text: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "18")
    assert wrap(text, Terminal()).split("\n") == lines
    assert wrap(text, io.StringIO()) == text, "programs get whole lines"
