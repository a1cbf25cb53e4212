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
    """Writes what the model says once it has said it: what was written cannot be taken back, and an
    answer that breaks off is asked for again.
    """

    def __init__(self) -> None:
        self._words = Words(_write)

    def show(self, event: TurnEvent) -> None:
        if event.HasField("text_finished"):
            self._words.add(event.text_finished.step, 0, event.text_finished.text)
            self._words.end_line()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
