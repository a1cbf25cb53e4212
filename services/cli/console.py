"""What commands share in talking to a person or to a script."""

import json
import re
import sys
from collections.abc import Mapping
from typing import Any, Self

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
"""As of a program that SIGINT has ended."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys, and what makes text read differently from what it is."""


def printable(text: str) -> str:
    """The text without what a terminal would obey."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def readable(data: bytes, what: str) -> str:
    """The text that somebody gave; what is no UTF-8 is replaced, and that is remarked on."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        complain(f"{what} is not valid UTF-8; invalid bytes are replaced")
        return data.decode(errors="replace")


def say(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(f"{text}\n")


def complain(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"hermes: {printable(text)}\n")


def print_json(value: Mapping[str, Any] | list[Any]) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


class StatusLine:
    """One line of standard error that says what is being done, and is gone in the end."""

    def __init__(self) -> None:
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self.show("")

    def show(self, text: str) -> None:
        """Say this in place of what was said before."""
        if sys.stderr.isatty():
            self._is_shown = True
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
