"""This process's terminal, handed over key by key to a program elsewhere."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager, suppress

READ_BYTES = 32 * 1024

DETACH_KEY = b"\x1d"
"""Ctrl-]; pressed twice it detaches, and before any other key it is a key like all."""


@contextmanager
def raw_mode(on_resize: Callable[[], None]) -> Generator[None]:
    """Every key goes to the program, Ctrl-C too; the terminal is as before when this is left."""
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)
        loop.add_signal_handler(signal.SIGWINCH, on_resize)
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        with suppress(termios.error):  # the terminal may have been closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def terminal_size() -> tuple[int, int]:
    """Rows and columns, as the contract takes them."""
    size = os.get_terminal_size(sys.stdin.fileno())
    return min(max(size.lines, 1), 1000), min(max(size.columns, 1), 1000)


class DetachKeys:
    """Finds the keys that detach in what is typed."""

    def __init__(self) -> None:
        self._held = False

    def pass_on(self, typed: bytes) -> tuple[bytes, bool]:
        """What goes to the program, and whether the rest was to detach."""
        passed = bytearray()
        for key in (bytes([code]) for code in typed):
            if key != DETACH_KEY:
                passed += DETACH_KEY * self._held + key
                self._held = False
            elif self._held:
                return bytes(passed), True
            else:
                self._held = True
        return bytes(passed), False


async def typed() -> AsyncGenerator[bytes]:
    """What comes on standard input, until it ends."""
    while data := await _read(sys.stdin.fileno()):
        yield data


async def _read(descriptor: int) -> bytes:
    # Not made non-blocking: the terminal is shared with whoever started this process.
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, there.set)
    except PermissionError:
        pass  # A file: the event loop cannot watch it, and nobody waits for it.
    else:
        try:
            await there.wait()
        finally:
            loop.remove_reader(descriptor)
    return os.read(descriptor, READ_BYTES)
