"""What people and programs hand to a command: answers, lines and files."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from services.cli.console import printable
from services.errors import InvalidArgument

READ_BYTES = 32 * 1024
STANDARD = Path("-")
"""Standard input or output, as programs call it."""


async def agreed(question: str, unasked: str) -> bool:
    """Whether the person at the terminal agrees; InvalidArgument says `unasked` if nobody is."""
    if not sys.stdin.isatty():
        raise InvalidArgument(f"there is no terminal to ask on; {unasked}")
    sys.stdout.write(f"{printable(question)} [y/N] ")
    sys.stdout.flush()
    async with aclosing(arriving_lines()) as arriving:
        lines = await anext(arriving, [""])
    return lines[0].strip().lower() in ("y", "yes")


async def arriving_lines() -> AsyncGenerator[list[str]]:
    """The lines of standard input, without their ends, in lists of what came together.

    A carriage return ends a line only before a line feed; what is no UTF-8 is U+FFFD.
    """
    begun = b""
    async with aclosing(typed()) as pieces:
        async for data in pieces:
            *lines, begun = (begun + data).split(b"\n")
            if lines:
                yield [_text(line) for line in lines]
    if begun:
        yield [_text(begun)]


def read_up_to(path: Path, most_bytes: int) -> bytes:
    """What a file holds, or `most_bytes` and one more where it holds more; raises OSError.

    What is piped in may have no end.
    """
    if path == STANDARD:
        return sys.stdin.buffer.read(most_bytes + 1)
    with path.open("rb") as stream:
        return stream.read(most_bytes + 1)


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="replace")


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
