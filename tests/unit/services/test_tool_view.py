"""Tool calls as a person in a terminal sees them."""

import io
import json

import pytest

from agent_service.tools.guards.taint import fenced
from hermes.agent.v1 import turn_event_pb2 as pb
from services.cli.chat.screen import COLOURED, PLAIN, Screen
from services.cli.chat.tool_view import Lines, ToolView

CALL = "call_1"


class Seen:
    """A view, what it has written and what it has folded."""

    def __init__(self, styles: dict[str, str] | None = None) -> None:
        self._terminal = io.StringIO()
        self.folded: list[str] = []
        write, styles = self._terminal.write, styles or dict(PLAIN)
        screen = Screen(write, write, line_styles=styles, word_styles=PLAIN)
        self.view = ToolView(screen, self._fold)

    @property
    def text(self) -> str:
        return self._terminal.getvalue()

    def start(self, name: str, **arguments: object) -> None:
        told = json.dumps(arguments)
        started = pb.ToolStarted(call_id=CALL, name=name, arguments_json=told)
        self.view.show(pb.TurnEvent(tool_started=started))

    def progress(self, text: str) -> None:
        self.view.show(pb.TurnEvent(tool_progress=pb.ToolProgress(call_id=CALL, text=text)))

    def finish(self, name: str, preview: str = "", *, is_error: bool = False) -> None:
        finished = pb.ToolFinished(call_id=CALL, name=name, preview=preview, is_error=is_error)
        self.view.show(pb.TurnEvent(tool_finished=finished))

    def _fold(self, lines: Lines) -> None:
        self.folded = [text for text, _ in lines]


def test_long_output_is_folded_to_its_first_and_last_lines() -> None:
    seen = Seen()
    seen.start("terminal", command="seq 1 5000")
    for first in range(1, 5001, 100):
        seen.progress("".join(f"{number}\n" for number in range(first, first + 100)))
    assert "│ 10\n" in seen.text
    assert "│ 11\n" not in seen.text
    assert "│ 5000" in seen.view.pending(), "the latest lines are drawn meanwhile"
    seen.finish("terminal")
    lines = [line.strip() for line in seen.text.splitlines()]
    assert lines[10:13] == ["│ 10", "… 4,980 more lines; Ctrl-O shows them", "│ 4991"]
    assert lines[-2:] == ["│ 5000", "✓"]
    assert (seen.folded[0].strip(), seen.folded[-1].strip()) == ("│ 11", "│ 4990")
    assert seen.view.pending() == ""


def test_output_of_twenty_lines_is_whole() -> None:
    seen = Seen()
    seen.progress("".join(f"{number}\n" for number in range(1, 21)))
    seen.finish("terminal")
    assert [line[4:] for line in seen.text.splitlines()[:-1]] == [str(n) for n in range(1, 21)]
    assert not seen.folded


def test_an_edit_is_a_coloured_diff() -> None:
    seen = Seen({**COLOURED})
    seen.start("patch", path="a.py", old_string="x", new_string="y")
    seen.finish("patch", "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x = 1\n+y = 1\n same")
    assert "\x1b[31m  │ -x = 1\x1b[0m\n\x1b[32m  │ +y = 1\x1b[0m\n" in seen.text
    assert "▸ patch  a.py" in seen.text


def test_marks_for_the_model_are_no_part_of_a_diff() -> None:
    seen = Seen()
    seen.start("patch", path="a.py")
    seen.finish("patch", fenced("@@ -1 +1 @@\n-x = 1\n+y = 1", "a folder"))
    assert "▸ patch  a.py\n  │ @@ -1 +1 @@\n  │ -x = 1\n  │ +y = 1\n  ✓" in seen.text


def test_a_written_file_is_shown_as_what_it_adds() -> None:
    seen = Seen()
    seen.start("write_file", path="a.txt", content="one\ntwo\n")
    seen.finish("write_file", "Wrote 8 bytes.")
    assert "▸ write_file  a.txt\n  │ +one\n  │ +two\n  ✓" in seen.text


def test_a_failed_edit_shows_no_change() -> None:
    seen = Seen()
    seen.start("write_file", path="a.txt", content="one\n")
    seen.finish("write_file", "No such folder.", is_error=True)
    assert "+one" not in seen.text
    assert "✗ No such folder." in seen.text


def test_a_plan_is_a_checklist() -> None:
    seen = Seen()
    seen.start("todo", todos=[{"id": "1", "content": "read", "status": "completed"}])
    seen.finish("todo", "[x] 1: read\n[>] 2: write: well\n[ ] 3: rest\n[-] 4: no")
    assert seen.text.splitlines() == [
        "▸ todo",
        "    ✓ read",
        "    ▸ write: well",
        "    ☐ rest",
        "    ✗ no",
        "  ✓ ",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("clarify", {"question": "Which?", "choices": ["a", "b"]}, "▸ clarify"),
        ("web_search", {"query": "otters", "limit": 3}, "▸ web_search  query: otters, limit: 3"),
        ("delegate_task", {"tasks": [{"goal": "a"}, {"goal": "b"}]}, "tasks: goal: a; goal: b"),
        ("todo", {}, "▸ todo"),
        ("list", {"all": True, "none": None}, "▸ list  all: yes"),
    ],
)
def test_arguments_are_never_json(name: str, arguments: dict[str, object], line: str) -> None:
    seen = Seen()
    seen.start(name, **arguments)
    assert seen.text.strip().endswith(line)
    assert not {"{", "[", '"'} & set(seen.text)
