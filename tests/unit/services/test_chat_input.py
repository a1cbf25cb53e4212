"""What people type into a chat: lines, files, pipes and commands."""

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from hermes.gateway.v1.conversation_pb2 import SlashCommand
from services.cli.chat.attachments import find
from services.cli.chat.completer import CommandCompleter
from services.cli.chat.input_line import TypedHistory, rows
from services.cli.standard_input import STANDARD, read_up_to
from services.errors import InvalidArgument
from services.redaction.redactor import MASK, Redactor

SECRET = "canary.4711.of-the-home"


def test_a_line_is_kept_without_its_secrets_and_recalled_as_it_was_typed(tmp_path: Path) -> None:
    file = tmp_path / "chat_history"
    history = TypedHistory(file, Redactor([SECRET]))
    history.append_string(f"use {SECRET} for it")
    assert SECRET not in file.read_text()
    assert history.get_strings() == [f"use {SECRET} for it"]
    again = TypedHistory(file, Redactor([SECRET]))
    assert list(again.load_history_strings()) == [f"use {MASK} for it"]


def test_a_line_is_recalled_although_it_cannot_be_kept(tmp_path: Path) -> None:
    history = TypedHistory(tmp_path / "moved" / "chat_history", Redactor())
    history.append_string("go on")
    assert history.get_strings() == ["go on"]


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


def test_a_file_is_read_whole_or_one_byte_further(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"abcd")
    assert [read_up_to(file, most) for most in (2, 3, 4, 9)] == [b"abc", *[b"abcd"] * 3]
    with pytest.raises(FileNotFoundError):
        read_up_to(tmp_path / "gone", 9)
    assert Path("-") == STANDARD


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("one\ntwo\n")
    with chdir(tmp_path):
        yield


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("explain @src/main.py", ["main.py"]),
        ("explain @src/main.py:2, please", ["main_2-2.py"]),
        ("ask @ann, @john.doe, @types/node, @ann@example.org or ann@example.org", []),
        ("@property is `@src/mian.py`; 5 @ 3", []),
        ("!cat @src/mian.py", []),
        ("/skill @src/mian.py", []),
    ],
)
def test_files_are_told_from_handles_and_mails(text: str, named: list[str]) -> None:
    sent, found = find(text)
    assert (sent, [file.name for file in found]) == (text, named)


@pytest.mark.parametrize(
    "name", ["src/mian.py", "mian.py", "src/main", "./main", "/nowhere", "src/mian.py:1-2", '"a b"']
)
def test_a_mistyped_file_is_told(name: str) -> None:
    with pytest.raises(InvalidArgument, match="there is no file"):
        find(f"explain @{name}")


COMMANDS = (
    SlashCommand(name="cron", help="jobs", words=["list", "add", "show"]),
    SlashCommand(name="compress", help="compress"),
    SlashCommand(name="paper_search", help="Finds papers.", skill="research/paper-search"),
)

LOCAL_NAMES = ("/edit", "/quit", "/exit", "/clear", "/compact", "/cost")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("/", ["/cron", "/compress", "/paper_search", *LOCAL_NAMES]),
        ("/c", ["/cron", "/compress", "/clear", "/compact", "/cost"]),
        ("/CR", ["/cron"]),
        ("/paper-s", ["/paper_search"]),
        ("/x", []),
        ("/cron ", ["list", "add", "show"]),
        ("/cron s", ["show"]),
        ("/cron show s", []),
        ("/compress ", []),
        ("what is /c", []),
        ("c", []),
    ],
)
def test_what_is_completed(typed: str, completed: list[str]) -> None:
    completer = CommandCompleter()
    document = Document(typed)
    before = {each.text for each in completer.get_completions(document, CompleteEvent())}
    assert before <= set(LOCAL_NAMES)
    completer.know(COMMANDS)
    found = list(completer.get_completions(document, CompleteEvent()))
    assert [each.text for each in found] == completed
    for each in found:
        whole = typed[: len(typed) + each.start_position] + each.text
        assert whole.startswith("/")


def test_other_names_mean_the_same_unless_a_skill_has_them() -> None:
    completer = CommandCompleter()
    completer.know(COMMANDS)
    said = ("/clear", "/Compact", "/cost", "/compress", "/clear it", "clear", "/edit")
    meant = ("/new", "/compress", "/usage", "/compress", "/new it", "clear", "/edit")
    assert tuple(map(completer.expand, said)) == meant
    completer.know([*COMMANDS, SlashCommand(name="clear", skill="tidy/clear")])
    assert completer.expand("/clear") == "/clear"


def test_other_names_work_before_the_commands_are_known() -> None:
    assert CommandCompleter().expand("/clear") == "/new"
