"""Shows a turn in the terminal while it happens."""

import contextlib
import json
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from hermes.agent.v1.turn_event_pb2 import ToolFinished, ToolStarted, TurnEvent, TurnFinished
from services.cli.console import printable
from services.cli.transcript import interrupted

SHOWN_CHARS = 200
SHOWN_PROGRESS_LINES = 20

TELLING = ("command", "path", "pattern", "action")
"""Arguments that say by themselves what a call is about."""


def plain() -> "TurnView":
    """A view on standard output, in colour only on a terminal; says nothing of failures."""
    return TurnView(Console(), tells_failure=False)


class TurnView:
    """Writes events as lines; the answer's text is written as it comes."""

    def __init__(self, console: Console, *, tells_failure: bool = True) -> None:
        self._console = console
        self._tells_failure = tells_failure
        self._written = 0
        self._step = 0
        self._attempt = 0
        self._at_line_start = True

    def show(self, event: TurnEvent) -> None:
        """Show one event."""
        if event.attempt != self._attempt:
            self._attempt = event.attempt
            self._restart()  # what an attempt before this one had said of a step is void
        match event.WhichOneof("kind"):
            case "text_delta":
                delta = event.text_delta
                self._text(delta.step, delta.offset, delta.text)
            case "text_snapshot":
                self._text(event.text_snapshot.step, 0, event.text_snapshot.text)
            case "text_finished":
                self._text(event.text_finished.step, 0, event.text_finished.text)
                self._end_line()
            case "tool_started":
                self._line(_started(event.tool_started))
            case "tool_progress":
                self._progress(event.tool_progress.text)
            case "tool_finished":
                self._line(_finished(event.tool_finished))
            case "notice" | "compressed":
                self._restart()
                self._line(_told(event))
            case "turn_finished":
                self._ended(event.turn_finished)
            case _:
                pass

    def _text(self, step: int, offset: int, text: str) -> None:
        """Write what is new; a snapshot or a whole text repeats what was written."""
        if step != self._step:
            self._step, self._written = step, 0
        new = text[max(0, self._written - offset) :]
        if new:
            self._write(printable(new))
            self._written = offset + len(text)

    def _restart(self) -> None:
        self._end_line()
        self._written = 0

    def _progress(self, text: str) -> None:
        for line in printable(text).splitlines()[-SHOWN_PROGRESS_LINES:]:
            self._line(Text(f"  │ {line}", style="dim"))

    def _ended(self, finished: TurnFinished) -> None:
        self._restart()
        self._step = 0  # the next turn counts its steps from 1 again
        if self._tells_failure and (message := _failure(finished)):
            self._line(message)

    def _line(self, text: Text) -> None:
        self._end_line()
        if printable(text.plain) != text.plain:
            text = Text(printable(text.plain), style=text.style)
        self._console.print(text, highlight=False, soft_wrap=True)

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()
        self._at_line_start = text.endswith("\n")


def _failure(finished: TurnFinished) -> Text | None:
    match finished.WhichOneof("outcome"):
        case "failed":
            return Text(finished.failed.failure.message, style="red")
        case "cancelled":
            return Text(interrupted(finished.cancelled), style="yellow")
        case "limit_reached":
            return Text(finished.limit_reached.message, style="yellow")
        case "needs_review":
            return Text(finished.needs_review.message, style="red")
        case _:
            return None


def _told(event: TurnEvent) -> Text:
    if event.HasField("notice"):
        return Text(event.notice.text, style="yellow")
    before, after = event.compressed.before_token_count, event.compressed.after_token_count
    text = f"The conversation was condensed from about {before:,} to {after:,} tokens."
    return Text(text, style="dim")


def _started(started: ToolStarted) -> Text:
    text = Text("▸ ", style="cyan")
    text.append(started.name, style="bold cyan")
    text.append(f"  {_argument(started.arguments_json)}", style="cyan")
    return text


def _argument(arguments_json: str) -> str:
    """What a person wants to see of a call: the command or path, else everything, in one line."""
    shown = arguments_json
    with contextlib.suppress(ValueError, RecursionError):
        arguments: Any = json.loads(arguments_json)
        if isinstance(arguments, dict):
            named = cast("dict[str, Any]", arguments)
            shown = str(next((named[n] for n in TELLING if n in named), arguments_json))
    return _shortened(shown)


def _shortened(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"


def _finished(finished: ToolFinished) -> Text:
    milliseconds = finished.duration.ToMilliseconds()
    facts = [f"{milliseconds / 1000:.1f} s"] if milliseconds else []
    if finished.backend:
        unguarded = ", not isolated" if finished.isolation == "none" else ""
        facts.insert(0, f"{finished.backend}{unguarded}")
    if finished.HasField("exit_code"):
        facts.insert(0, f"exit {finished.exit_code}")
    elif finished.is_error:
        facts.insert(0, _shortened(finished.preview))
    mark, style = ("✗", "red") if finished.is_error else ("✓", "green")
    return Text(f"  {mark} {' · '.join(facts)}", style=style)
