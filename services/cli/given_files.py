"""Files that a command is given, of which `-` is standard input."""

import sys
from pathlib import Path

STANDARD = Path("-")
"""Standard input or output, as programs call it."""


def read_up_to(path: Path, most_bytes: int) -> bytes:
    """What a file holds, and where that is more than so many bytes, one more of them: what is
    piped in may have no end. Raises OSError.
    """
    if path == STANDARD:
        return sys.stdin.buffer.read(most_bytes + 1)
    with path.open("rb") as stream:
        return stream.read(most_bytes + 1)
