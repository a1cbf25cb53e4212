"""The output of a conversation: whole lines, and the words of an answer as they arrive."""

import re
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TextIO

from services.cli.chat.markdown import MarkdownStream
from services.cli.console import printable
from services.cli.output import UNLIMITED_COLUMNS

Styles = Mapping[str, str]
"""The codes of a stream's styles."""

_CODE = re.compile(r"\x1b\[[\d;]*m")

PLAIN: Styles = {}
UNCOLOURED: Styles = {"bold": "1", "dim": "2"}
COLOURED: Styles = {**UNCOLOURED, "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def can_talk(environ: Mapping[str, str]) -> bool:
    """Return whether a person is at a terminal with a movable cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environ.get("TERM") != "dumb"


def styles_of(stream: TextIO, environ: Mapping[str, str]) -> Styles:
    """Return no styles unless the stream is a terminal, and none with colours under NO_COLOR."""
    if not stream.isatty() or environ.get("TERM") == "dumb":
        return PLAIN
    return UNCOLOURED if environ.get("NO_COLOR") else COLOURED


class Screen:
    """Writes lines and words, possibly to different streams."""

    def __init__(
        self,
        lines: Callable[[str], object],
        words: Callable[[str], object],
        *,
        line_styles: Styles,
        word_styles: Styles,
        columns: Callable[[], int] = lambda: UNLIMITED_COLUMNS,
        draft_rows: Callable[[], int] = lambda: 0,
    ) -> None:
        """`draft_rows` is how many rows of an unfinished block are shown and written over."""
        self._lines = lines
        self._words = words
        self._line_styles = line_styles
        self._word_styles = word_styles
        self._columns = columns
        self._markdown = self._new_markdown() if word_styles else None
        self._draft_rows = draft_rows
        self._drafted = 0
        self._at_line_start = True

    def line(self, text: str, style: str = "", *, wraps: bool = True) -> None:
        """Write a separate line after the words so far."""
        self.end_line()
        self.aside(text, style, wraps=wraps)

    def aside(self, text: str, style: str = "", *, wraps: bool = True) -> None:
        """Write a line, and continue the words after it."""
        shown, code = printable(text), self._line_styles.get(style)
        if self._line_styles and wraps and len(shown) > (columns := self._columns()):
            from services.cli.chat import renderer  # slow to import

            shown = renderer.wrap(shown, columns)
        self._erase_draft()
        self._lines(f"\x1b[{code}m{shown}\x1b[0m\n" if code else f"{shown}\n")

    def markdown(self, text: str, style: str = "") -> None:
        """Write a whole styled text beside the words."""
        if style or self._markdown is None:
            self.aside(text, style)
            return
        stream = self._new_markdown()
        self._lines((stream.feed(printable(text)) + stream.finish()) or "\n")

    def words(self, text: str) -> None:
        shown = printable(text)
        self._write(shown if self._markdown is None else self._markdown.feed(shown))
        self._draw_draft()

    def pending(self) -> str:
        """Return the rows of words that are not written yet, as their block has not ended."""
        return "" if self._markdown is None else self._markdown.pending()

    def end_line(self) -> None:
        """End the line of words, if any."""
        if self._markdown is not None:
            self._write(self._markdown.finish())
        if not self._at_line_start:
            self._write("\n")

    def _draw_draft(self) -> None:
        """Show the last rows of the block that has not ended."""
        if not (most := self._draft_rows()):
            return
        self._erase_draft()
        pending, columns = self.pending(), self._columns()
        # A row that the terminal would wrap could not be erased.
        rows = [row for row in pending.split("\n") if len(_CODE.sub("", row)) <= columns][-most:]
        if pending and rows:
            self._words("".join(f"{row}\n" for row in rows))
            self._drafted = len(rows)

    def _erase_draft(self) -> None:
        if self._drafted:
            self._words(f"\x1b[{self._drafted}F\x1b[J")
            self._drafted = 0

    def _write(self, text: str) -> None:
        self._erase_draft()
        if text:
            self._words(text)
            self._at_line_start = text.endswith("\n")

    def _new_markdown(self) -> MarkdownStream:
        return MarkdownStream(self._columns, colours="cyan" in self._word_styles)


def standard_screen(environ: Mapping[str, str], *, whole: bool = False) -> Screen:
    """Return standard output; unless `whole`, lines of a piped one go to the terminal, if any."""
    out = sys.stdout
    beside = out if whole or out.isatty() else sys.stderr
    return Screen(
        partial(_flushed, beside) if whole or beside.isatty() else lambda _: None,
        partial(_flushed, out),
        line_styles=styles_of(beside, environ),
        word_styles=styles_of(out, environ),
        columns=lambda: shutil.get_terminal_size().columns,
        draft_rows=lambda: shutil.get_terminal_size().lines - 1 if out.isatty() else 0,
    )


def _flushed(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
