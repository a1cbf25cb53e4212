"""Shows a turn in the terminal while it happens."""

import contextlib
import json
from collections.abc import Callable
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from hermes.agent.v1.turn_event_pb2 import ToolFinished, ToolStarted, TurnEvent, TurnFinished
from services.cli.console import printable
from services.cli.markdown import CODE, MarkdownStream
from services.cli.transcript import interrupted
from services.cli.words import Words

SHOWN_CHARS = 200
SHOWN_PROGRESS_LINES = 20

TELLING = ("command", "path", "pattern", "action")
"""Arguments that say by themselves what a call is about."""


def plain() -> "TurnView":
    """A view on standard output, in colour only on a terminal; says nothing of failures."""
    return TurnView(Console(), tells_failure=False)


def steps() -> "TurnView":
    """A view of all but the words, beside those, on standard error."""
    return TurnView(Console(stderr=True), tells_failure=False, writes_words=False)


class TurnView:
    """Writes events as lines; the answer's text is written as it comes."""

    def __init__(
        self,
        console: Console,
        write: Callable[[str], None] | None = None,
        *,
        tells_failure: bool = True,
        writes_words: bool = True,
    ) -> None:
        """Write lines to a console, and words that are still coming there or elsewhere."""
        self._console = console
        self._write_words = write or self._write
        self._tells_failure = tells_failure
        self._writes_words = writes_words
        styling = None if console.color_system is None else MarkdownStream()
        self._words = Words(self._write_styled, styling)
        self._calls = _Calls()
        self._attempt = 0
        self._has_begun = False

    def show(self, event: TurnEvent) -> None:
        """Show one event."""
        if event.attempt != self._attempt:
            self._attempt = event.attempt
            self._words.restart()  # what an attempt before this one had said of a step is void
        self._has_begun |= event.HasField("turn_started")
        match event.WhichOneof("kind"):
            case "text_delta":
                delta = event.text_delta
                self._text(delta.step, delta.offset, delta.text)
            case "text_snapshot":
                self._text(event.text_snapshot.step, 0, event.text_snapshot.text)
            case "text_finished":
                self._text(event.text_finished.step, 0, event.text_finished.text)
                self._words.end_line()
                self._calls.expect(event.text_finished.tool_call_count)
            case "tool_started":
                self._line(_started(event.tool_started, self._calls.begin(event.tool_started)))
            case "tool_progress":
                progress = event.tool_progress
                self._progress(progress.text, self._calls.mark(progress.call_id))
            case "tool_finished":
                finished = event.tool_finished
                self._line(_finished(finished, self._calls.mark(finished.call_id)))
            case "notice" | "compressed":
                self._words.restart()
                self._line(_told(event))
            case "turn_finished":
                self._ended(event.turn_finished)
            case _:
                pass

    def pause(self) -> None:
        """Let something else be shown."""
        self._words.end_line()

    def _text(self, step: int, offset: int, text: str) -> None:
        if self._writes_words:
            self._words.add(step, offset, text)

    def _progress(self, text: str, mark: str) -> None:
        for line in printable(text).splitlines()[-SHOWN_PROGRESS_LINES:]:
            self._line(Text(f"{mark} │ {line}", style="dim"))

    def _ended(self, finished: TurnFinished) -> None:
        self._words.end_turn()
        if self._tells_failure and (message := _failure(finished)):
            self._line(message)
        if not self._has_begun and finished.completed.answer:
            # A message that has joined other work: that is all that comes of it by itself.
            self._line(Text(finished.completed.answer, style="dim"))

    def _line(self, text: Text) -> None:
        self._words.end_line()
        if printable(text.plain) != text.plain:
            text = Text(printable(text.plain), style=text.style)
        self._console.print(text, highlight=False, soft_wrap=True)

    def _write_styled(self, text: str) -> None:
        if self._console.no_color:
            text = text.replace(CODE[0], "").replace(CODE[1], "")
        self._write_words(text)

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


class _Calls:
    """Numbers the calls that run side by side, so that one sees whose output is whose."""

    def __init__(self) -> None:
        self._are_several = False
        self._numbers: dict[str, int] = {}

    def expect(self, count: int) -> None:
        """Take note of how many calls an answer asks for."""
        self._are_several = count > 1
        self._numbers.clear()

    def begin(self, started: ToolStarted) -> str:
        """What a call is called by, where there are others; else nothing."""
        if not self._are_several:
            return ""
        return str(self._numbers.setdefault(started.call_id, len(self._numbers) + 1))

    def mark(self, call_id: str) -> str:
        """What stands before whatever belongs to a call."""
        number = self._numbers.get(call_id)
        return " " if number is None else f" {number}"


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


def _started(started: ToolStarted, number: str) -> Text:
    text = Text(f"▸ {number} " if number else "▸ ", style="cyan")
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


def _finished(finished: ToolFinished, before: str) -> Text:
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
    return Text(f"{before} {mark} {' · '.join(facts)}", style=style)
