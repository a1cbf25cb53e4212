"""Messages are shown to people as tables, and to programs as JSON."""

import os
import pty
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from hermes.common.v1.content_pb2 import MessageFile
from hermes.executor.v1 import sandbox_pb2, workspace_pb2
from services.cli.command import Context
from services.cli.console import StatusLine
from services.cli.output import Column, json_value, print_details, print_rows, print_table

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
    lines = on_terminal(columns, monkeypatch, HEADINGS, ROWS).splitlines()
    assert [" ".join(line.split()) for line in lines] == shown


def on_terminal(
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> str:
    """What a terminal of a width shows of a table, without styles."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as terminal, redirect_stdout(terminal):
        print_table(headings, rows)
    said = b""
    with os.fdopen(master, "rb", buffering=0) as screen, suppress(OSError):
        while piece := screen.read(4096):
            said += piece
    return said.decode().replace(BOLD, "").replace(PLAIN, "")


SANDBOX = sandbox_pb2.Sandbox(
    sandbox_id="sbx_1",
    profile="a\x1b[1m",
    state=sandbox_pb2.SANDBOX_STATE_READY,
    create_time=Timestamp(seconds=1_800_000_000),
    expires_in=Duration(seconds=90),
    running_command_count=1234,
)
COLUMNS = (
    Column("sandbox", "sandbox_id"),
    Column("profile"),
    Column("state"),
    Column("isolation"),
    Column("left", "expires_in"),
    Column("runs", "running_command_count"),
    Column("short", lambda one: one.sandbox_id[4:]),
)


def test_headings_of_two_words_cut_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    headings, row = ("model", "$ out", "from"), ("otter/one", "1", "packaged")
    said = on_terminal(20, monkeypatch, headings, [row])
    assert "packaged" in said
    assert "otter/one" in said


def test_a_message_is_json_for_programs() -> None:
    shown = {
        "sandbox_id": "sbx_1",
        "profile": "a\x1b[1m",
        "state": "ready",
        "isolation": None,
        "create_time": "2027-01-15T08:00:00Z",
        "expires_in": 90,
        "running_command_count": 1234,
        "template": "",
        "network_policy": None,
    }
    assert shown.items() <= json_value(SANDBOX).items()
    assert json_value(MessageFile(name="a.txt", sha256=b"\xab"))["sha256"] == "ab"


def test_a_message_is_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([SANDBOX], COLUMNS)
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["sandbox", "profile", "state", "isolation", "left", "runs", "short"]
    assert row.split() == ["sbx_1", "a[1m", "ready", "—", "1m30s", "1,234", "1"]


def test_an_empty_list_says_so_to_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        Context(Namespace(json=as_json)).print_list([], COLUMNS, "There are none.")
    assert capsys.readouterr().out == "There are none.\n[]\n"


def test_details_leave_out_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    columns = (*COLUMNS[:1], Column("limit", "limit_bytes"), Column("size", "size_bytes"))
    print_details(workspace_pb2.Workspace(size_bytes=1536), columns[1:])
    assert capsys.readouterr().out.split() == ["size", "1.5", "KiB"]


class _TerminalStream(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_of_status_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    with redirect_stderr(_TerminalStream()) as shown:
        StatusLine().show("waiting: the provider limits calls")
    assert shown.getvalue() == "\r\x1b[Kwaiting: the provid"
