"""Tables are whole where nobody looks at them but a program."""

import pytest

from services.cli.tables import print_table


def test_a_piped_table_is_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("20261122_000658_33a9b1", "x" * 60, "cli"), ("short", "[bold]", "telegram")]
    print_table(("session", "title", "from"), rows)
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["session", "title", "from"]
    assert [tuple(line.split()) for line in lines] == rows
