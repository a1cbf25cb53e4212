"""Asking before something is done that cannot be undone."""

import sys
from contextlib import aclosing

from services.cli.console import printable
from services.cli.raw_terminal import typed
from services.errors import InvalidArgument


async def agreed(question: str, unasked: str) -> bool:
    """Whether the person at the terminal wants it; InvalidArgument says `unasked` if nobody is."""
    if not sys.stdin.isatty():
        raise InvalidArgument(f"nobody is here to be asked; {unasked}")
    sys.stdout.write(f"{printable(question)} [y/N] ")
    sys.stdout.flush()
    line = b""
    async with aclosing(typed()) as pieces:
        async for piece in pieces:
            line += piece
            if line.endswith(b"\n"):
                break
    return line.decode(errors="replace").strip().lower() in ("y", "yes")
