"""Shows a turn where standard output is read by something else than a person."""

import sys

from rich.console import Console

from hermes.agent.v1.turn_event_pb2 import TurnEvent
from services.cli.turn_view import TurnView


class SplitView:
    """Writes the words to standard output; tools and notices to a terminal beside it, if any."""

    def __init__(self) -> None:
        # A quiet console prints no lines; the words are written past it.
        self._words = TurnView(Console(quiet=True), tells_failure=False)
        self._steps: TurnView | None = None
        if sys.stderr.isatty():
            self._steps = TurnView(Console(stderr=True), tells_failure=False, writes_words=False)

    def show(self, event: TurnEvent) -> None:
        """Show one event."""
        self._words.show(event)
        if self._steps is not None:
            self._steps.show(event)
