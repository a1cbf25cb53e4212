"""Shows the tool calls of a turn: what they are given, their output, and what they changed."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec import Struct, field

from hermes.agent.v1.turn_event_pb2 import ToolFinished, ToolStarted, TurnEvent
from services.cli.chat.screen import Screen
from services.cli.console import printable
from services.validation import json_object

SHOWN_CHARS = 200
SHOWN_LINES = 20
"""Of the output of a call; half are the first, half the last."""
_HALF = SHOWN_LINES // 2
MOST_LINES = 10_000
"""How many lines of a call can be unfolded."""

Lines = Sequence[tuple[str, str]]
"""Lines with their styles."""

_TELLING = ("command", "path", "pattern", "action")
"""Arguments that describe a call by themselves."""
_UNTOLD = ("clarify", "todo")
"""Tools whose arguments are shown otherwise."""
_DIFF_STYLES = (("+++", "bold"), ("---", "bold"), ("+", "green"), ("-", "red"), ("@@", "cyan"))
_MARK = re.compile(r"^\[(?:End of u|U)ntrusted data [0-9a-f]{12}[^\]\n]*\]\n?", re.MULTILINE)
"""Lines for the model around data of others."""
_ITEM = re.compile(r"\[([ >x-])\] [^:]*: (.*)")
_ITEM_MARKS = {" ": ("☐", ""), ">": ("▸", "bold"), "x": ("✓", "green"), "-": ("✗", "dim")}


class _Call(Struct):
    number: str = ""
    """Tells the lines of concurrent calls apart."""
    started: ToolStarted = field(default_factory=ToolStarted)
    count: int = 0
    """How many lines it has written."""
    kept: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    """Its latest lines that are not shown yet."""


class ToolView:
    """Writes calls as lines; `fold` receives those that are not shown."""

    def __init__(self, screen: Screen, fold: Callable[[Lines], object] | None = None) -> None:
        self._screen = screen
        self._fold = fold
        self._calls: dict[str, _Call] = {}
        self._are_several = False

    def begin(self, call_count: int) -> None:
        """Expect the calls of a step."""
        self._are_several = call_count > 1
        self._calls.clear()

    def show(self, event: TurnEvent) -> None:
        match event.WhichOneof("kind"):
            case "tool_started":
                self._start(event.tool_started)
            case "tool_progress":
                call = self._calls.setdefault(event.tool_progress.call_id, _Call())
                lines = printable(event.tool_progress.text).splitlines()
                self._add(call, [(f"│ {line}", "dim") for line in lines])
            case "tool_finished":
                self._finish(event.tool_finished)
            case _:
                pass

    def _start(self, started: ToolStarted) -> None:
        call = self._calls[started.call_id] = _Call(started=started)
        if self._are_several:
            call.number = str(len(self._calls))
        text = "" if started.name in _UNTOLD else described(started.arguments_json)
        line = " ".join(filter(None, ("▸", call.number, started.name, text and f" {text}")))
        self._screen.line(line, "cyan")

    def pending(self) -> str:
        """Return the last lines of running calls that are not written yet."""
        kept = [text for call in self._calls.values() for text, _ in [*call.kept][-_HALF:]]
        return "\n".join(f"\x1b[2m   {text}\x1b[0m" for text in kept)

    def _add(self, call: _Call, lines: Lines) -> None:
        """Write the first lines of a call, and keep the others."""
        for text, style in lines:
            call.count += 1
            if call.count <= _HALF:
                self._write(call, text, style)
            else:
                call.kept.append((text, style))

    def _write(self, call: _Call, text: str, style: str) -> None:
        self._screen.line(f" {call.number} {text}", style, wraps=False)

    def _finish(self, finished: ToolFinished) -> None:
        call = self._calls.setdefault(finished.call_id, _Call())
        self._end(call)
        if not finished.is_error:
            self._add(call, _changes(call.started, finished))
            self._end(call)
        sign, style = ("✗", "red") if finished.is_error else ("✓", "green")
        self._screen.line(f" {call.number} {sign} {' · '.join(_facts(finished))}", style)

    def _end(self, call: _Call) -> None:
        """Write the last lines of a call, and hand over those between."""
        lines = [*call.kept]
        folded, last = lines[:-_HALF], lines[-_HALF:]
        if folded:
            how = "; Ctrl-O shows them" if self._fold is not None else ""
            self._write(call, f"… {call.count - 2 * _HALF:,} more lines{how}", "dim")
            if self._fold is not None:
                self._fold([(f" {call.number} {text}", style) for text, style in folded])
        for text, style in last:
            self._write(call, text, style)
        call.kept.clear()
        call.count = 0


def _changes(started: ToolStarted, finished: ToolFinished) -> Lines:
    """Return what a call changed, as the lines of a diff or a checklist."""
    match finished.name:
        case "patch":
            lines = printable(without_marks(finished.preview)).splitlines()
            styles = [
                next((s for m, s in _DIFF_STYLES if line.startswith(m)), "dim") for line in lines
            ]
            return [(f"│ {line}", style) for line, style in zip(lines, styles, strict=True)]
        case "write_file":
            content = str(arguments_of(started.arguments_json).get("content", ""))
            return [(f"│ +{line}", "green") for line in printable(content).splitlines()]
        case "todo":
            marks = [(_ITEM_MARKS[sign], text) for sign, text in todo_items(finished.preview)]
            return [(f"  {mark} {printable(text)}", style) for (mark, style), text in marks]
        case _:
            return ()


def _facts(finished: ToolFinished) -> list[str]:
    facts = list[str]()
    if finished.HasField("exit_code"):
        facts.append(f"exit {finished.exit_code}")
    elif finished.is_error:
        facts.append(_shortened(finished.preview))
    if finished.backend:
        unguarded = ", not isolated" if finished.isolation == "none" else ""
        facts.append(f"{finished.backend}{unguarded}")
    if milliseconds := finished.duration.ToMilliseconds():
        facts.append(f"{milliseconds / 1000:.1f} s")
    return facts


def described(arguments_json: str) -> str:
    """Return a call's command or path, else all its arguments, in one line."""
    arguments = arguments_of(arguments_json)
    arguments.pop("patch", None)  # its diff is shown when it is applied
    telling = next((arguments[name] for name in _TELLING if name in arguments), arguments)
    return _shortened(_plain(telling) if arguments else arguments_json.removesuffix("{}"))


def arguments_of(arguments_json: str) -> dict[str, Any]:
    """Return the arguments of a call; empty if they are no JSON object."""
    return json_object(arguments_json) or {}


def todo_items(preview: str) -> list[tuple[str, str]]:
    """Return the sign and the text of each item in a result of the `todo` tool."""
    found = map(_ITEM.match, preview.splitlines())
    return [(item[1], item[2]) for item in found if item]


def without_marks(preview: str) -> str:
    """Return the result of a call without the lines that are for the model."""
    return _MARK.sub("", preview)


def _plain(value: Any) -> str:
    """Return a value of JSON as people write it."""
    match value:
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return ", ".join(f"{key}: {_plain(one)}" for key, one in pairs if one is not None)
        case list():
            return "; ".join(map(_plain, cast("list[Any]", value)))
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"
