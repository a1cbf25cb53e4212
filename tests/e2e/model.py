"""The scripted model of the scenarios, served over HTTP by a process of its own."""

import json
import secrets
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.home import REPOSITORY

MARKER = f"600.{secrets.randbelow(10**9):09}"
"""Seconds that no other sleep on this machine takes: by them its processes are told apart."""

NOTE = f"a note of run {MARKER}\nwith a second line\n"
FLOOD_BYTES = 200_000_000
FLOOD_GROWTH_MIB = 100
"""What its output may add to the memory of those who handle it."""
STORY = " ".join(f"word{number}" for number in range(40))

Json = Mapping[str, Any]


def terminal_call(command: str, **arguments: Any) -> Json:
    """A call of the terminal tool."""
    return {"name": "terminal", "arguments": {"command": command, **arguments}}


def tool_call(name: str, **arguments: Any) -> Json:
    """A call of another tool."""
    return {"name": name, "arguments": arguments}


def rule(user: str, *steps: Any) -> Json:
    """What the model does when a message has these words."""
    return {"user": user, "steps": list(steps)}


def calls(*made: Json, text: str = "") -> Json:
    """An answer that asks for tools."""
    return {"text": text, "tool_calls": list(made)}


TELL = {"text": "{tool_result}"}

SCENARIOS: Sequence[Json] = (
    rule("who are you", calls(terminal_call("id; hostname; pwd")), TELL),
    rule(
        "write the note",
        calls(tool_call("write_file", path="note.txt", content=NOTE)),
        calls(tool_call("read_file", path="note.txt")),
        TELL,
    ),
    rule(
        "send the report",
        calls(tool_call("write_file", path="report.txt", content=NOTE)),
        calls(tool_call("send_message", message="MEDIA:report.txt")),
        TELL,
    ),
    rule(
        "draw an otter",
        calls(tool_call("clarify", question="Which otter?", choices=["river otter", "sea otter"])),
        TELL,
    ),
    rule("show the note", calls(terminal_call("cat note.txt")), TELL),
    rule(
        "flood",
        calls(
            terminal_call(
                f"echo the first line; yes | head -c {FLOOD_BYTES}; echo the last line", timeout=120
            )
        ),
        TELL,
    ),
    rule(
        "sleep long",
        calls(terminal_call(f"echo sleeping; sleep {MARKER}", timeout=600), text="I wait."),
        {"text": "I slept."},
    ),
    rule(
        "run a program",
        calls(
            tool_call(
                "execute_code",
                code="from hermes_tools import read_file, terminal, write_file\n"
                "write_file('numbers', '1\\n2\\n3\\n')\n"
                "print(terminal('wc -l <numbers'), '3|3' in read_file('numbers'))",
            )
        ),
        TELL,
    ),
    rule(
        "a program that sleeps",
        calls(
            tool_call(
                "execute_code", code=f"import hermes_tools\nhermes_tools.terminal('sleep {MARKER}')"
            )
        ),
        {"text": "It slept."},
    ),
    rule(
        "four naps",
        calls(*(terminal_call(f"sleep 0.5; echo nap {number}") for number in range(4))),
        {"text": "All four are over."},
    ),
    rule("story", {"text": STORY, "chunk_chars": 12, "chunk_delay_s": 0.05}),
    rule("go wrong", calls(terminal_call("echo to stderr >&2; exit 3")), TELL),
    rule("touch a file", calls(terminal_call("touch made; echo done")), TELL),
    rule(
        "two in a row",
        calls(terminal_call("echo one of two")),
        calls(terminal_call("echo two of two")),
        TELL,
    ),
    rule("a nap then", calls(terminal_call("echo begun; sleep 3; echo and over")), TELL),
    rule("refuse my key", {"status": 401, "error": {"error": {"message": "no such key"}}}),
    rule("ask a stranger", {"status": 404, "error": {"error": {"message": "who is that?"}}}),
    rule("", {"text": "You said: {user}"}),
)


@dataclass(frozen=True, slots=True)
class ModelProcess:
    """A running model server."""

    url: str
    pid: int


@contextmanager
def model_process(
    folder: Path, rules: Sequence[Json] = SCENARIOS, **script_fields: Any
) -> Generator[ModelProcess]:
    """Serve the rules from a process for the time of the block."""
    script = folder / "script.json"
    script.write_text(json.dumps({"rules": list(rules), **script_fields}), encoding="utf-8")
    argv = [sys.executable, "-m", "tests.fakes.model", "--script", str(script)]
    with subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield ModelProcess(process.stdout.readline().strip(), process.pid)
        finally:
            process.kill()
