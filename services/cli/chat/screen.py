"""What a conversation writes: whole lines, and the words of an answer as they come."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TextIO

from services.cli.chat.markdown import CODE, MarkdownStream
from services.cli.console import printable

Styles = Mapping[str, str]
"""The codes of the styles that a stream shows."""

PLAIN: Styles = {}
UNCOLOURED: Styles = {"bold": "1", "dim": "2"}
COLOURED: Styles = {**UNCOLOURED, "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def can_talk(environ: Mapping[str, str]) -> bool:
    """Whether a person is at a terminal that can move its cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environ.get("TERM") != "dumb"


def styles_of(stream: TextIO, environ: Mapping[str, str]) -> Styles:
    """None unless the stream is a terminal; without colours where NO_COLOR is set."""
    if not stream.isatty() or environ.get("TERM") == "dumb":
        return PLAIN
    return UNCOLOURED if environ.get("NO_COLOR") else COLOURED


class Screen:
    """Writes lines and words, which may go to different streams."""

    def __init__(
        self,
        lines: Callable[[str], object],
        words: Callable[[str], object],
        *,
        line_styles: Styles,
        word_styles: Styles,
    ) -> None:
        self._lines = lines
        self._words = words
        self._line_styles = line_styles
        self._word_styles = word_styles
        self._markdown = MarkdownStream() if word_styles else None
        self._at_line_start = True

    def line(self, text: str, style: str = "") -> None:
        """Write a line of its own, after the words so far."""
        self.end_line()
        self.aside(text, style)

    def aside(self, text: str, style: str = "") -> None:
        """Write a line, and let the words go on."""
        shown, code = printable(text), self._line_styles.get(style)
        self._lines(f"\x1b[{code}m{shown}\x1b[0m\n" if code else f"{shown}\n")

    def markdown(self, text: str, style: str = "") -> None:
        """Write a whole text beside the words, with the styles that it asks for."""
        if style or self._markdown is None:
            self.aside(text, style)
            return
        stream = MarkdownStream()
        self._lines(self._coloured(stream.feed(printable(text)) + stream.finish()) + "\n")

    def words(self, text: str) -> None:
        """Write more words."""
        shown = printable(text)
        self._write(shown if self._markdown is None else self._markdown.feed(shown))

    def end_line(self) -> None:
        """Let what comes next begin a line."""
        if self._markdown is not None:
            self._write(self._markdown.finish())
        if not self._at_line_start:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            self._words(self._coloured(text))
            self._at_line_start = text.endswith("\n")

    def _coloured(self, text: str) -> str:
        if "cyan" in self._word_styles:
            return text
        return text.replace(CODE[0], "").replace(CODE[1], "")


def standard_screen(environ: Mapping[str, str], *, whole: bool = False) -> Screen:
    """Standard output; where that is piped, lines go to a terminal on standard error, if any.

    With `whole` all of it is for standard output.
    """
    out = sys.stdout
    beside = out if whole or out.isatty() else sys.stderr
    return Screen(
        partial(_flushed, beside) if whole or beside.isatty() else lambda _: None,
        partial(_flushed, out),
        line_styles=styles_of(beside, environ),
        word_styles=styles_of(out, environ),
    )


def _flushed(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
