"""The lines of the standard input as they arrive, also while somebody types them."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator

READ_BYTES = 1 << 16


async def arriving_lines() -> AsyncGenerator[list[str]]:
    """The lines, without their ends, in lists of what came together; no UTF-8 is U+FFFD.

    A carriage return is the end of a line only before a line feed.
    """
    begun: list[bytes] = []
    while data := await _read(sys.stdin.fileno()):
        first, *others = data.split(b"\n")
        begun.append(first)
        if others:
            yield [_text(line) for line in (b"".join(begun), *others[:-1])]
            begun = [others[-1]]
    if last := b"".join(begun):
        yield [_text(last)]


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="replace")


async def _read(descriptor: int) -> bytes:
    """What there is, once there is something; nothing at the end."""
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, there.set)
    except PermissionError:
        pass  # A file, which is never waited for.
    else:
        try:
            await there.wait()
        finally:
            loop.remove_reader(descriptor)
    return os.read(descriptor, READ_BYTES)
