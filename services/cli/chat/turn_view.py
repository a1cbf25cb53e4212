"""Shows a turn as it happens."""

import contextlib
import json
from typing import Any, cast

from hermes.agent.v1.turn_event_pb2 import ToolFinished, ToolStarted, TurnEvent, TurnFinished
from services.cli.chat.screen import Screen
from services.cli.console import printable

SHOWN_CHARS = 200
SHOWN_PROGRESS_LINES = 20

_TELLING = ("command", "path", "pattern", "action")
"""Arguments that describe a call by themselves."""


class TurnView:
    """Writes events as lines, and the answer's words once each as they arrive."""

    def __init__(self, screen: Screen, *, tells_failure: bool = True) -> None:
        self._screen = screen
        self._tells_failure = tells_failure
        self._attempt = self._step = self._written = 0
        self._has_begun = self._are_several = False
        self._numbers: dict[str, int] = {}
        """Numbers of concurrent calls, to tell their output apart."""

    def show(self, event: TurnEvent) -> None:
        if event.attempt != self._attempt:
            self._attempt = event.attempt
            self._restart()
        match event.WhichOneof("kind"):
            case "turn_started":
                self._has_begun = True
            case "text_delta":
                self._say(event.text_delta.step, event.text_delta.offset, event.text_delta.text)
            case "text_snapshot":
                self._say(event.text_snapshot.step, 0, event.text_snapshot.text)
            case "text_finished":
                self._say(event.text_finished.step, 0, event.text_finished.text)
                self._screen.end_line()
                self._are_several = event.text_finished.tool_call_count > 1
                self._numbers.clear()
            case "notice":
                self._remark(event.notice.text, "yellow")
            case "compressed":
                before, after = (
                    event.compressed.before_token_count,
                    event.compressed.after_token_count,
                )
                told = f"The conversation was condensed from about {before:,} to {after:,} tokens."
                self._remark(told, "dim")
            case "turn_finished":
                self._show_end(event.turn_finished)
            case _:
                self._show_call(event)

    def _show_call(self, event: TurnEvent) -> None:
        match event.WhichOneof("kind"):
            case "tool_started":
                self._screen.line(self._started(event.tool_started), "cyan")
            case "tool_progress":
                mark = self._mark(event.tool_progress.call_id)
                lines = printable(event.tool_progress.text).splitlines()
                for line in lines[-SHOWN_PROGRESS_LINES:]:
                    self._screen.line(f"{mark} │ {line}", "dim")
            case "tool_finished":
                self._finished(event.tool_finished)
            case _:
                pass

    def _remark(self, text: str, style: str) -> None:
        self._restart()
        self._screen.line(text, style)

    def _say(self, step: int, offset: int, text: str) -> None:
        """Write the new part; snapshots and whole texts repeat earlier parts."""
        if step != self._step:
            self._step, self._written = step, 0
        if new := text[max(0, self._written - offset) :]:
            self._screen.words(new)
            self._written = offset + len(text)

    def _restart(self) -> None:
        self._screen.end_line()
        self._written = 0

    def _started(self, started: ToolStarted) -> str:
        number = ""
        if self._are_several:
            number = f"{self._numbers.setdefault(started.call_id, len(self._numbers) + 1)} "
        return f"▸ {number}{started.name}  {_argument(started.arguments_json)}"

    def _mark(self, call_id: str) -> str:
        return f" {self._numbers.get(call_id, '')}"

    def _finished(self, finished: ToolFinished) -> None:
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
        sign, style = ("✗", "red") if finished.is_error else ("✓", "green")
        self._screen.line(f"{self._mark(finished.call_id)} {sign} {' · '.join(facts)}", style)

    def _show_end(self, finished: TurnFinished) -> None:
        self._screen.end_line()
        message, style = shortfall(finished)
        if self._tells_failure and message:
            self._screen.line(message, style)
        if not self._has_begun and finished.completed.answer:
            # A message that joined another turn has no other answer.
            self._screen.line(finished.completed.answer, "dim")


def shortfall(finished: TurnFinished) -> tuple[str, str]:
    """Return why a turn has no answer, and its style; empty if it has one."""
    match finished.WhichOneof("outcome"):
        case "completed":
            return "", ""
        case "failed":
            return finished.failed.failure.message, "red"
        case "cancelled":
            return ": ".join(filter(None, ("interrupted", finished.cancelled.message))), "yellow"
        case "limit_reached":
            return finished.limit_reached.message, "yellow"
        case _:
            return finished.needs_review.message, "red"


def _argument(arguments_json: str) -> str:
    """Return a call's command or path, else all its arguments, in one line."""
    shown = arguments_json
    with contextlib.suppress(ValueError, RecursionError):
        arguments: Any = json.loads(arguments_json)
        if isinstance(arguments, dict):
            named = cast("dict[str, Any]", arguments)
            shown = str(next((named[n] for n in _TELLING if n in named), arguments_json))
    return _shortened(shown)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"
