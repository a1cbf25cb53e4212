"""Shows a turn where standard output is read by something else than a person."""

import importlib
import sys

from hermes.agent.v1.turn_event_pb2 import TurnEvent
from services.cli.one_shot import EventView
from services.cli.words import Words


class SplitView:
    """Writes the words to standard output; tools and notices to a terminal beside it, if any."""

    def __init__(self) -> None:
        self._views: list[EventView] = [_WordsView()]
        if sys.stderr.isatty():
            # What draws for people takes a while to import, and scripts have no use for it.
            self._views.append(importlib.import_module("services.cli.turn_view").steps())

    def show(self, event: TurnEvent) -> None:
        """Show one event."""
        for view in self._views:
            view.show(event)


class _WordsView:
    """Begins a new line wherever people are shown something else."""

    def __init__(self) -> None:
        self._words = Words(_write)
        self._attempt = 0

    def show(self, event: TurnEvent) -> None:
        words = self._words
        if event.attempt != self._attempt:
            self._attempt = event.attempt
            words.restart()
        match event.WhichOneof("kind"):
            case "text_delta":
                words.add(event.text_delta.step, event.text_delta.offset, event.text_delta.text)
            case "text_snapshot":
                words.add(event.text_snapshot.step, 0, event.text_snapshot.text)
            case "text_finished":
                words.add(event.text_finished.step, 0, event.text_finished.text)
                words.end_line()
            case "tool_started" | "tool_progress" | "tool_finished":
                words.end_line()
            case "notice" | "compressed":
                words.restart()
            case "turn_finished":
                words.end_turn()
            case _:
                pass


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
