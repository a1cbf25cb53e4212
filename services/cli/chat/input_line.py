"""The line at the bottom of the terminal, in which one types while things are written above it."""

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
"""Of a line that is not over. A longer one goes up in parts, which terminals may not join again
when they are resized, or when it is copied from there."""

_SIGN = re.compile(r"(\x1b\[\d+m)")
_ENDS = {end: begin for begin, end in (BOLD, ITALIC, CODE)}
"""Which style a sign is the end of."""


class Typist(Protocol):
    """Who is told what is typed."""

    def label(self) -> tuple[str, str]:
        """What stands before what is typed, and a hint where nothing is."""
        ...

    def entered(self, line: str) -> bool:
        """A line was entered, and is empty now; whether it gets that back."""
        ...

    def stopped(self) -> bool:
        """Ctrl-C was pressed; whether there was something to stop."""
        ...

    def changed(self) -> None:
        """What is typed has changed."""
        ...


class TypedHistory(FileHistory):
    """Lines in a file of the home, without secrets; in this sitting they are as typed."""

    def __init__(self, file: Path, redactor: Redactor) -> None:
        super().__init__(str(file))
        self._redactor = redactor

    def store_string(self, string: str) -> None:
        """Keep a line."""
        super().store_string(self._redactor.redact(string))


class InputLine:
    """Reads lines until the user leaves, and shows what is written above them.

    A line that is not over yet, such as words that are still coming, is drawn with the input, so
    that neither has the other within it.
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
        # At once, as the line is not there between what is written and this.
        self._session.app.max_render_postpone_time = None
        self._typed.accept_handler = self._entered
        self._typed.on_text_changed += self._changed

    @property
    def is_empty(self) -> bool:
        """Whether nothing is typed."""
        return not self._typed.text

    async def run(self) -> None:
        """Read lines until `leave`, or Ctrl-D."""
        try:
            with patch_stdout(raw=True), suppress(EOFError):  # for what does not know of this line
                await self._session.prompt_async()
        finally:
            self.add("\n" if self._unfinished else "")

    def leave(self) -> None:
        """Read no more."""
        get_app().exit()

    def draw(self) -> None:
        """Show the label as it is now."""
        self._session.app.invalidate()

    def echo(self, label: str, line: str) -> None:
        """Show a line that was entered as it stood there."""
        indented = printable(line).replace("\n", "\n" + " " * get_cwidth(label))
        self.write(f"{label}{indented}\n")

    def write(self, text: str) -> None:
        """Show whole lines, above the one that is not over."""
        app, output = self._session.app, self._session.app.output
        if app.is_running:
            app.renderer.erase()
        output.write_raw(text.replace("\n", "\r\n"))
        output.flush()
        app.invalidate()

    def add(self, text: str) -> None:
        """Go on with the line that is not over."""
        size = self._session.app.output.get_size()
        over, newline, self._unfinished = (self._unfinished + text).rpartition("\n")
        above, (*full, last) = over + newline, rows(self._unfinished, size.columns)
        if len(full) >= min(MOST_ROWS, max(1, size.rows // 3)):
            # The sign behind makes the terminal go on in the next row of the same line.
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
        return True  # what is there now is not what was entered

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
    """What stands before a further line of what is typed, and before the rest of a long one."""
    return "" if wrap_count else " " * width


@lru_cache(maxsize=1)
def _drawn(line: str, columns: int) -> StyleAndTextTuples:
    """A line as it is drawn, which is asked for several times each time."""
    return to_formatted_text(ANSI("\n".join((*rows(line, columns), ""))))


def rows(text: str, columns: int) -> list[str]:
    """The rows that a line takes, each with the styles that it begins in; at least one."""
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
    """Signs of styles, and single characters."""
    for piece in _SIGN.split(text):
        if piece.startswith("\x1b"):
            yield piece
        else:
            yield from piece
