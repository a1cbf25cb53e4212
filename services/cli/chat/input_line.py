"""The input line at the bottom of the terminal, with output written above it."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Protocol, cast

from msgspec import Struct
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus, is_done, to_filter
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Window
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.utils import get_cwidth

from services.cli.chat.completer import CommandCompleter
from services.cli.console import printable
from services.redaction.redactor import Redactor

TAB = 8
HINT_STYLE = "dim"
EARLY_S = 0.3
"""In what was typed before the line was there, terminals send Enter as Ctrl-J."""
MOST_ROWS = 8
"""How many last rows of a block that arrives are drawn; all are written when it ends."""

_SIGN = re.compile(r"(\x1b\[[\d;]*m)")
_END = "\x1b[0m"


class View(Struct, frozen=True):
    """What is drawn with the input."""

    label: str
    """Before the input."""
    hint: str
    """In place of an empty input."""
    status: str
    """Below the input."""
    pending: str
    """Rows above the input."""


class InputSink(Protocol):
    """Receives the input."""

    def view(self) -> View:
        """What is drawn with the input."""
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

    def unfold(self) -> None:
        """Handle Ctrl-O."""
        ...

    def paste(self) -> None:
        """Handle Ctrl-V, which terminals do not use for text."""
        ...


class TypedHistory(FileHistory):
    """Lines in a file of the home, redacted; in this session they are as typed."""

    def __init__(self, file: Path, redactor: Redactor) -> None:
        super().__init__(str(file))
        self._redactor = redactor

    def store_string(self, string: str) -> None:
        with suppress(OSError):  # the home may be full, or gone
            super().store_string(self._redactor.redact(string))


class InputLine:
    """Reads lines until the user leaves, and shows output above them.

    Unfinished output, such as arriving words, is drawn with the input, so that neither breaks the
    other.
    """

    def __init__(
        self, history: TypedHistory, completer: CommandCompleter, typist: InputSink
    ) -> None:
        self._typist = typist
        self._kept: list[str] | None = None
        """What is to be written when the editor is closed."""
        self._began = 0.0
        self._session: PromptSession[None] = PromptSession(
            self._message,
            history=history,
            completer=completer,
            complete_while_typing=False,
            prompt_continuation=_indented,
            placeholder=self._hint,
            key_bindings=self._keys(),
            erase_when_done=True,
            tempfile_suffix=".md",
        )
        window = self._session.layout.current_window
        window.dont_extend_height = to_filter(True)
        # The bottom toolbar of prompt_toolkit is hidden for a moment after each output.
        below = Window(FormattedTextControl(self._status), height=1, dont_extend_height=True)
        cast("HSplit", self._session.layout.container).children.append(
            ConditionalContainer(below, ~is_done)
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
        self._began = monotonic()
        with patch_stdout(raw=True), suppress(EOFError):  # for code that writes to stdout
            await self._session.prompt_async()

    def leave(self) -> None:
        get_app().exit()

    def draw(self) -> None:
        self._session.app.invalidate()

    def echo(self, label: str, line: str) -> None:
        indented = printable(line).replace("\n", "\n" + " " * get_cwidth(label))
        self.write(f"{label}{indented}\n")

    def write(self, text: str) -> None:
        if self._kept is not None:
            self._kept.append(text)
            return
        app, output = self._session.app, self._session.app.output
        if app.is_running:
            app.renderer.erase()
        output.write_raw(text.replace("\n", "\r\n"))
        output.flush()
        app.invalidate()

    def insert(self, text: str) -> None:
        """Add text to the input, at the cursor."""
        self._typed.insert_text(text)

    def edit(self, text: str) -> None:
        """Open the input in $VISUAL or $EDITOR, with a text if it is empty."""
        if self._kept is None:
            if self.is_empty:
                self._typed.document = Document(text)
            self._kept = []
            get_app().create_background_task(self._edit())

    async def _edit(self) -> None:
        try:
            await self._typed.open_in_editor()
        finally:
            kept, self._kept = self._kept, None
            self.write("".join(kept or ()))

    @property
    def _typed(self) -> Buffer:
        return self._session.default_buffer

    def _message(self) -> StyleAndTextTuples:
        view = self._typist.view()
        label = ("", view.label)
        if not view.pending:
            return [label]
        size = self._session.app.output.get_size()
        return [*_drawn(view.pending, size.columns, min(MOST_ROWS, max(1, size.rows // 3))), label]

    def _status(self) -> StyleAndTextTuples:
        columns = self._session.app.output.get_size().columns
        return [(HINT_STYLE, self._typist.view().status[: columns - 1])]

    def _hint(self) -> StyleAndTextTuples:
        return [(HINT_STYLE, self._typist.view().hint)]

    def _changed(self, _typed: Buffer) -> None:
        self._typist.changed()

    def _entered(self, typed: Buffer) -> bool:
        line = typed.text
        if line.endswith("\\"):
            typed.document = Document(f"{line[:-1]}\n")
            return True
        typed.append_to_history()
        typed.reset()
        if self._typist.entered(line):
            typed.document = Document(line)
        return True  # the new input is not the entered line

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def stop(_event: KeyPressEvent) -> None:
            if not self._typist.stopped() and not self.is_empty:
                self.echo(self._typist.view().label, self._typed.text)
                self._typed.reset()
                self._typist.changed()

        def newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        def newline_or_early_enter(event: KeyPressEvent) -> None:
            if monotonic() - self._began < EARLY_S:
                event.current_buffer.validate_and_handle()
            else:
                newline(event)

        def edit(_event: KeyPressEvent) -> None:
            self.edit("")

        def unfold(_event: KeyPressEvent) -> None:
            self._typist.unfold()

        keys.add("escape", "enter", filter=has_focus(DEFAULT_BUFFER))(newline)
        keys.add("c-j", filter=has_focus(DEFAULT_BUFFER))(newline_or_early_enter)

        def paste(_event: KeyPressEvent) -> None:
            self._typist.paste()

        keys.add("c-v")(paste)
        keys.add("c-x", "c-e")(edit)
        keys.add("c-o")(unfold)
        keys.add("c-c", filter=has_focus(DEFAULT_BUFFER))(stop)
        keys.add("<sigint>")(stop)
        return keys


def _indented(width: int, _number: int, wrap_count: int) -> str:
    return "" if wrap_count else " " * width


@lru_cache(maxsize=1)
def _drawn(text: str, columns: int, most: int) -> StyleAndTextTuples:
    """Return the last rows of a text as drawn; cached, as each drawing asks several times."""
    drawn = [row for line in text.split("\n") for row in rows(line, columns)][-most:]
    return to_formatted_text(ANSI("\n".join((*drawn, ""))))


def rows(text: str, columns: int) -> list[str]:
    """Return the rows of a line, at least one, each beginning with its active styles."""
    found, styles = [""], list[str]()
    at = 0
    for sign in _pieces(text):
        if sign.startswith("\x1b"):
            styles = [] if sign == _END else [*styles, sign]
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
