"""The words of a turn, written as they come and each of them once."""

from collections.abc import Callable
from typing import Protocol

from services.cli.console import printable


class Styling(Protocol):
    """Shows what is written in its own way, and may hold back what is not complete."""

    def feed(self, text: str) -> str:
        """What can be shown now that this much more was written."""
        ...

    def finish(self) -> str:
        """All that was held back."""
        ...


class Words:
    """Writes them somewhere."""

    def __init__(self, write: Callable[[str], None], styling: Styling | None = None) -> None:
        self._out = write
        self._styling = styling
        self._written = 0
        self._step = 0
        self._at_line_start = True

    def add(self, step: int, offset: int, text: str) -> None:
        """Write what is new; a snapshot or a whole text repeats what was written."""
        if step != self._step:
            self._step, self._written = step, 0
        new = text[max(0, self._written - offset) :]
        if new:
            shown = printable(new)
            self._write(shown if self._styling is None else self._styling.feed(shown))
            self._written = offset + len(text)

    def end_line(self) -> None:
        """Let what comes next begin a line."""
        if self._styling is not None:
            self._write(self._styling.finish())
        if not self._at_line_start:
            self._write("\n")

    def restart(self) -> None:
        """What was said of a step is said again."""
        self.end_line()
        self._written = 0

    def end_turn(self) -> None:
        """The next turn counts its steps from 1 again."""
        self.restart()
        self._step = 0

    def _write(self, text: str) -> None:
        if text:
            self._out(text)
            self._at_line_start = text.endswith("\n")
