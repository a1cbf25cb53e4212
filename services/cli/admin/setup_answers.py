"""Asks a person in a terminal, or takes what was given as options."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from services.cli.console import printable, say
from services.config.settings import Settings
from services.errors import InvalidArgument

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings

Option = tuple[str, str]
"""A value, and how it is shown."""

SHOWN_AT_ONCE = 12
"""A longer list is searched by typing."""


class Answers(Struct):
    """Answers of a person, or their defaults without a terminal."""

    asks: bool

    @classmethod
    def find(cls, settings: Settings) -> "Answers":
        """Ask if there is a terminal that can show a list."""
        is_dumb = settings.environ.get("TERM", "dumb") == "dumb"
        return cls(sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb)

    def choose(self, question: str, options: Sequence[Option], default: str) -> str:
        if not self.asks:
            return default
        if len(options) > SHOWN_AT_ONCE:
            return self._search(question, options, default)
        from prompt_toolkit.shortcuts import choice

        keys = _keys_of_two_digits(len(options))
        return choice(f"\n{question}", options=list(options), default=default, key_bindings=keys)

    def _search(self, question: str, options: Sequence[Option], default: str) -> str:
        from prompt_toolkit.completion import FuzzyCompleter, WordCompleter
        from prompt_toolkit.validation import Validator

        known = dict(options)
        words = FuzzyCompleter(WordCompleter(list(known), meta_dict=known, sentence=True))
        is_listed = Validator.from_callable(
            lambda text: not text.strip() or text.strip() in known,
            "It is not in the list; Tab shows what matches.",
            move_cursor_to_end=True,
        )
        say(f"\n{question}\nType to search {len(known)} models; Enter takes {printable(default)}.")
        return _prompted("> ", completer=words, validator=is_listed) or default

    def ask(self, question: str, *, secret: bool = False) -> str:
        """Return a line; empty without a terminal."""
        return _prompted(f"{question} ", is_password=secret) if self.asks else ""


def _keys_of_two_digits(count: int) -> "KeyBindings":
    """Return bindings for the numbers from 10; the list itself has those to 9."""
    from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
    from prompt_toolkit.keys import Keys

    bindings = KeyBindings()

    def bind(number: int) -> None:
        @bindings.add(*str(number))
        def select(event: KeyPressEvent) -> None:
            downs = [KeyPress(Keys.Down)] * (number - 9)
            event.key_processor.feed_multiple([KeyPress("9"), *downs], first=True)

    for number in range(10, count + 1):
        bind(number)
    return bindings


def _prompted(question: str, **options: Any) -> str:
    """Return a line; Ctrl-D ends the setup, as Ctrl-C does."""
    from prompt_toolkit import prompt

    try:
        return prompt(question, **options).strip()
    except EOFError:
        raise KeyboardInterrupt from None


def read_secret(file: str | None) -> str:
    """Read a key from a file, or from standard input if it is `-`."""
    if file is None:
        return ""
    try:
        text = sys.stdin.readline() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read the key from {file}: {error}") from None
    if not text.strip():
        raise InvalidArgument(f"there is no key in {file}")
    return text.strip()
