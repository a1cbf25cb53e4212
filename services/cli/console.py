"""Terminal and script output shared by commands."""

import re
import shutil
import sys
from textwrap import TextWrapper
from typing import Self, TextIO

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
"""The status of a program ended by SIGINT."""

_LABEL = re.compile(r" *\S(?:\S| (?! )){,20} {2,}| +")
"""What stands before the text of a line: words and several spaces, or an indentation."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that control a terminal, or make text look different from what it is."""


def printable(text: str) -> str:
    """Remove characters that control a terminal."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def say(text: str) -> None:
    """Print a line to standard output."""
    sys.stdout.write(f"{text}\n")


def tell(text: str) -> None:
    """Print a message to standard output, wrapped on a terminal."""
    say(wrap(text, sys.stdout))


def complain(text: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(f"{wrap(f'hermes: {printable(text)}', sys.stderr)}\n")


def wrap(text: str, stream: TextIO, most_columns: int = 10_000) -> str:
    """Break long lines between words on a terminal, below what follows a label."""
    if not stream.isatty():
        return text
    width = min(shutil.get_terminal_size().columns, most_columns)
    lines = list[str]()
    for line in text.split("\n"):
        label = _LABEL.match(line)
        wrapper = TextWrapper(
            width,
            subsequent_indent=" " * (label.end() if label else 0),
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += wrapper.wrap(line) if len(line) > width else [line]
    return "\n".join(lines)


class StatusLine:
    """A temporary line on standard error with the current activity."""

    def __init__(self) -> None:
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self.show("")

    def show(self, text: str) -> None:
        if sys.stderr.isatty():
            self._is_shown = True
            # A line that wraps could not be erased.
            sys.stderr.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()
