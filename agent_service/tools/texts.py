"""What the file tools share about texts."""

import difflib

from agent_service.tools.base import ToolFailed

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_DIFF_LINES = 400


def decode_text(path: str, data: bytes) -> str:
    """The file's text; ToolFailed when it is none."""
    if b"\0" in data[:8192]:
        raise ToolFailed(f"{path} is a binary file of {len(data):,} bytes.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def diff(path: str, before: str, after: str) -> str:
    """What changed, as a unified diff that is cut when it is long."""
    lines = list(
        difflib.unified_diff(
            before.splitlines(), after.splitlines(), f"a/{path}", f"b/{path}", lineterm="", n=2
        )
    )
    if len(lines) > MAX_DIFF_LINES:
        more = len(lines) - MAX_DIFF_LINES
        lines = [*lines[:MAX_DIFF_LINES], f"[{more} more lines of the diff]"]
    return "\n".join(lines)
