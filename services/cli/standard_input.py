"""Standard input of commands: answers, lines and files."""

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
"""Standard input or output by convention."""


async def agreed(question: str, unasked: str) -> bool:
    """Ask for agreement; InvalidArgument says `unasked` without a terminal."""
    if not sys.stdin.isatty():
        raise InvalidArgument(f"there is no terminal for questions; {unasked}")
    sys.stdout.write(f"{printable(question)} [y/N] ")
    sys.stdout.flush()
    async with aclosing(arriving_lines()) as arriving:
        lines = await anext(arriving, [""])
    return lines[0].strip().lower() in ("y", "yes")


async def arriving_lines() -> AsyncGenerator[list[str]]:
    """Yield lists of lines as they arrive; a CR counts only before LF, bad UTF-8 is U+FFFD."""
    begun = b""
    async with aclosing(typed()) as pieces:
        async for data in pieces:
            *lines, begun = (begun + data).split(b"\n")
            if lines:
                yield [_text(line) for line in lines]
    if begun:
        yield [_text(begun)]


def read_up_to(path: Path, most_bytes: int) -> bytes:
    """Read up to `most_bytes` and one more of a file, as pipes may be endless; raises OSError."""
    if path == STANDARD:
        return sys.stdin.buffer.read(most_bytes + 1)
    with path.expanduser().open("rb") as stream:
        return stream.read(most_bytes + 1)


async def read_limited(path: Path, most_bytes: int) -> bytes:
    """Do as `read_up_to`; Ctrl-C ends it, also while it waits for a terminal."""
    if path != STANDARD:
        return await asyncio.to_thread(read_up_to, path, most_bytes)
    data = b""
    async with aclosing(typed()) as pieces:
        async for piece in pieces:
            data += piece
            if len(data) > most_bytes:
                break
    return data


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="replace")


async def typed() -> AsyncGenerator[bytes]:
    """Yield the bytes of standard input until its end."""
    while data := await _read(sys.stdin.fileno()):
        yield data


async def _read(descriptor: int) -> bytes:
    # Not made non-blocking: the terminal is shared with the parent process.
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, there.set)
    except PermissionError:
        pass  # The event loop cannot watch files, and reading them does not block.
    else:
        try:
            await there.wait()
        finally:
            loop.remove_reader(descriptor)
    return os.read(descriptor, READ_BYTES)
