"""Tables are whole where nobody looks at them but a program."""

import os
import pty
from contextlib import redirect_stdout, suppress

import pytest

from services.cli.tables import print_table

HEADINGS = ("session", "title", "from")
ROWS = [("20261122_000658_33a9b1", "some words of it", "cli"), ("short", "", "telegram")]
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


def test_a_piped_table_is_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("20261122_000658_33a9b1", "x" * 60, "cli"), ("short", "[bold]", "telegram")]
    print_table(("session", "title", "from"), rows)
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["session", "title", "from"]
    assert [tuple(line.split()) for line in lines] == rows


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (
            47,
            [
                *("session title from", "20261122_000658_33a9b1 some words of cli", "it"),
                "short telegram",
            ],
        ),
        (
            36,
            [
                *("session 20261122_000658_33a9b1", "title some words of it", "from cli", ""),
                *("session short", "from telegram"),
            ],
        ),
    ],
)
def test_no_word_is_cut_on_a_terminal(
    columns: int, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as terminal, redirect_stdout(terminal):
        print_table(HEADINGS, ROWS)
    said = b""
    with os.fdopen(master, "rb", buffering=0) as screen, suppress(OSError):
        while piece := screen.read(4096):
            said += piece
    lines = said.decode().replace(BOLD, "").replace(PLAIN, "").splitlines()
    assert [" ".join(line.split()) for line in lines] == shown
