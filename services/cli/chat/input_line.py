"""The input line at the bottom of the terminal, with output written above it."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.utils import get_cwidth

from services.cli.chat.completer import CommandCompleter
from services.cli.chat.markdown import BOLD, CODE, ITALIC
from services.cli.console import printable
from services.redaction.redactor import Redactor

TAB = 8
HINT_STYLE = "dim"
MOST_ROWS = 8
"""Longer unfinished lines move up in parts, which terminals may not rejoin on resize or copy."""

_SIGN = re.compile(r"(\x1b\[\d+m)")
_ENDS = {end: begin for begin, end in (BOLD, ITALIC, CODE)}
"""The style that each sign ends."""


class Typist(Protocol):
    """Receives the input."""

    def label(self) -> tuple[str, str]:
        """The label before the input, and a placeholder."""
        ...

    def entered(self, line: str) -> bool:
        """Handle an entered line; return whether to put it back."""
        ...

    def stopped(self) -> bool:
        """Handle Ctrl-C; return whether there was something to stop."""
        ...

    def changed(self) -> None:
        """Handle a changed input."""
        ...


class TypedHistory(FileHistory):
    """Lines in a file of the home, redacted; in this session they are as typed."""

    def __init__(self, file: Path, redactor: Redactor) -> None:
        super().__init__(str(file))
        self._redactor = redactor

    def store_string(self, string: str) -> None:
        super().store_string(self._redactor.redact(string))


class InputLine:
    """Reads lines until the user leaves, and shows output above them.

    An unfinished output line, such as arriving words, is drawn with the input, so that neither
    breaks the other.
    """

    def __init__(self, history: TypedHistory, completer: CommandCompleter, typist: Typist) -> None:
        self._typist = typist
        self._unfinished = ""
        self._session: PromptSession[None] = PromptSession(
            self._message,
            history=history,
            completer=completer,
            complete_while_typing=False,
            prompt_continuation=_indented,
            placeholder=self._hint,
            key_bindings=self._keys(),
            erase_when_done=True,
        )
        # At once, as the line is gone between the output and its next drawing.
        self._session.app.max_render_postpone_time = None
        self._typed.accept_handler = self._entered
        self._typed.on_text_changed += self._changed

    @property
    def is_empty(self) -> bool:
        return not self._typed.text

    async def run(self) -> None:
        """Read lines until `leave` or Ctrl-D."""
        try:
            with patch_stdout(raw=True), suppress(EOFError):  # for code that writes to stdout
                await self._session.prompt_async()
        finally:
            self.add("\n" if self._unfinished else "")

    def leave(self) -> None:
        get_app().exit()

    def draw(self) -> None:
        """Redraw the label."""
        self._session.app.invalidate()

    def echo(self, label: str, line: str) -> None:
        """Show an entered line as it stood there."""
        indented = printable(line).replace("\n", "\n" + " " * get_cwidth(label))
        self.write(f"{label}{indented}\n")

    def write(self, text: str) -> None:
        """Show whole lines above the unfinished one."""
        app, output = self._session.app, self._session.app.output
        if app.is_running:
            app.renderer.erase()
        output.write_raw(text.replace("\n", "\r\n"))
        output.flush()
        app.invalidate()

    def add(self, text: str) -> None:
        """Extend the unfinished line."""
        size = self._session.app.output.get_size()
        over, newline, self._unfinished = (self._unfinished + text).rpartition("\n")
        above, (*full, last) = over + newline, rows(self._unfinished, size.columns)
        if len(full) >= min(MOST_ROWS, max(1, size.rows // 3)):
            # The next character makes the terminal continue the same line in the next row.
            above += "".join((*full, _SIGN.sub("", last)[:1], "\r"))
            self._unfinished = last
        if above:
            self.write(above)
        self.draw()

    @property
    def _typed(self) -> Buffer:
        return self._session.default_buffer

    def _message(self) -> StyleAndTextTuples:
        label = ("", self._typist.label()[0])
        if not self._unfinished:
            return [label]
        columns = self._session.app.output.get_size().columns
        return [*_drawn(self._unfinished, columns), label]

    def _hint(self) -> StyleAndTextTuples:
        return [(HINT_STYLE, self._typist.label()[1])]

    def _changed(self, _typed: Buffer) -> None:
        self._typist.changed()

    def _entered(self, typed: Buffer) -> bool:
        line = typed.text
        typed.append_to_history()
        typed.reset()
        if self._typist.entered(line):
            typed.document = Document(line)
        return True  # the new input is not the entered line

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def stop(_event: KeyPressEvent) -> None:
            if not self._typist.stopped() and not self.is_empty:
                self.echo(self._typist.label()[0], self._typed.text)
                self._typed.reset()
                self._typist.changed()

        keys.add("c-c", filter=has_focus(DEFAULT_BUFFER))(stop)
        keys.add("<sigint>")(stop)
        return keys


def _indented(width: int, _number: int, wrap_count: int) -> str:
    """Return the prefix of further and wrapped input lines."""
    return "" if wrap_count else " " * width


@lru_cache(maxsize=1)
def _drawn(line: str, columns: int) -> StyleAndTextTuples:
    """Return a line as drawn; cached, as each drawing asks several times."""
    return to_formatted_text(ANSI("\n".join((*rows(line, columns), ""))))


def rows(text: str, columns: int) -> list[str]:
    """Return the rows of a line, at least one, each beginning with its active styles."""
    found, styles = [""], list[str]()
    at = 0
    for sign in _pieces(text):
        if sign.startswith("\x1b"):
            if (begin := _ENDS.get(sign)) is None:
                styles.append(sign)
            elif begin in styles:
                styles.remove(begin)
            found[-1] += sign
            continue
        width = min(TAB - at % TAB, columns - at) if sign == "\t" else get_cwidth(sign)
        if at + width > columns and at:
            found.append("".join(styles))
            at = 0
        found[-1] += " " * width if sign == "\t" else sign
        at += width
    return found


def _pieces(text: str) -> Iterator[str]:
    """Yield style codes and single characters."""
    for piece in _SIGN.split(text):
        if piece.startswith("\x1b"):
            yield piece
        else:
            yield from piece
