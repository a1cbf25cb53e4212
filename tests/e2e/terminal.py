"""A real pseudo-terminal with an emulator behind it: what a person types and sees."""

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol

import pyte

ROWS, COLUMNS = 100, 110
WAIT_S = 40.0
_END_IS_SEEN_WITHIN_S = 0.1
CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"


class _Screen(pyte.Screen):
    """Answers what programs ask the terminal, such as where the cursor is."""

    def __init__(self, descriptor: int, columns: int) -> None:
        super().__init__(columns, ROWS)
        self._descriptor = descriptor

    def write_process_input(self, data: str) -> None:
        os.write(self._descriptor, data.encode())


class Spawns(Protocol):
    """Who has commands."""

    def spawn(self, *argv: str, in_terminal: bool = False, **options: Any) -> subprocess.Popen[str]:
        """Start one; in a terminal, which then is its standard input, it leads a session."""
        ...


class Terminal:
    """A command in a terminal; `screen` is what is to be seen now.

    With `piped`, its standard output goes elsewhere.
    """

    def __init__(
        self, home: Spawns, *argv: str, piped: bool = False, columns: int = COLUMNS
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        self._emulated = _Screen(self._master, columns)
        self._stream = pyte.Stream(self._emulated)
        self._changed = threading.Condition()
        # The command leads a session with this terminal, so that Ctrl-C is a signal to it.
        self.process = home.spawn(
            *argv,
            in_terminal=True,
            stdin=slave,
            stdout=subprocess.PIPE if piped else slave,
            stderr=slave,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def descriptor(self) -> int:
        """The side of the terminal on which it is seen and typed into."""
        return self._master

    @property
    def screen(self) -> str:
        """The lines on the screen, without the empty ones at its end."""
        with self._changed:
            return "\n".join(line.rstrip() for line in self._emulated.display).rstrip()

    @property
    def colours(self) -> set[str]:
        """Those of what is on the screen."""
        with self._changed:
            rows = self._emulated.buffer.values()
            return {
                colour for row in rows for sign in row.values() for colour in (sign.fg, sign.bg)
            }

    def type(self, text: str) -> None:
        """Type a line and press Enter."""
        self.press(text + ENTER)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def wait_for(self, pattern: str, *, count: int = 1, timeout_s: float = WAIT_S) -> str:
        """Wait until the screen shows the pattern so many times; the screen as it then is."""
        end = time.monotonic() + timeout_s
        with self._changed:
            while True:
                # Before the screen is looked at: what is written last is on it then.
                over = self.process.poll() is not None and not self._reader.is_alive()
                screen = self.screen
                if len(re.findall(pattern, screen, re.MULTILINE)) >= count:
                    return screen
                assert not over, f"the command ended without {pattern!r}:\n{screen}"
                assert time.monotonic() < end, f"no {pattern!r} on the screen:\n{screen}"
                self._changed.wait(_END_IS_SEEN_WITHIN_S)

    def wait_end(self, timeout_s: float = WAIT_S) -> int:
        """Wait until the command has ended and all is shown; its exit status."""
        status = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return status

    def read_piped(self) -> str:
        """All that it wrote to its standard output; returns when that is closed."""
        assert self.process.stdout is not None, "the terminal was opened with `piped`"
        with self.process.stdout as stream:
            return stream.read()

    def close(self) -> None:
        """Hang up, and end the command if that did not."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(WAIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._master)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return  # the last program has closed its end
            with self._changed:
                self._stream.feed(decoder.decode(data))
                self._changed.notify_all()


@contextmanager
def terminal(
    home: Spawns, *argv: str, piped: bool = False, columns: int = COLUMNS
) -> Generator[Terminal]:
    """A command in a terminal for the time of the block."""
    opened = Terminal(home, *argv, piped=piped, columns=columns)
    try:
        yield opened
    finally:
        opened.close()
