"""Text and file name helpers of the file tools."""

import difflib
import json
import posixpath

from msgspec import Struct

from agent_service.tools.base import ToolFailed
from services.home.texts import mark_of

WORKSPACE = "/workspace"
MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_DIFF_LINES = 400


class Encoding(Struct, frozen=True):
    """How a file has its text as bytes."""

    name: str
    mark: bytes = b""


def decode_text(path: str, data: bytes) -> tuple[str, Encoding]:
    """The file's text and encoding; ToolFailed if it is not text."""
    mark, name = mark_of(data)
    first = Encoding(name or "utf-8", mark)
    for encoding in (first, Encoding("windows-1252"), Encoding("latin-1")):
        try:
            text = data[len(encoding.mark) :].decode(encoding.name)
        except UnicodeDecodeError:
            continue
        if "\0" not in text[:8192]:
            return text, encoding
        break
    raise ToolFailed(f"{path} is a binary file of {len(data):,} bytes.")


def encode_text(path: str, text: str, encoding: Encoding) -> bytes:
    """The text in the file's encoding; ToolFailed if the encoding lacks a character."""
    try:
        return encoding.mark + text.encode(encoding.name)
    except UnicodeEncodeError as error:
        lacking = error.object[error.start]
        raise ToolFailed(
            f"{path} is {encoding.name.capitalize()} text, which cannot have the character "
            f"{lacking}."
        ) from None


def lines_of(text: str) -> list[str]:
    """The text's lines, counted as grep and editors count them."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def diff(path: str, before: str | None, after: str | None, was: str = "") -> str:
    """A unified diff, cut if long; None means no file, `was` is the file's name before a move."""
    names = (_side("a", was or path, before), _side("b", path, after))
    texts = ((before or "").splitlines(), (after or "").splitlines())
    lines = list(difflib.unified_diff(*texts, *names, lineterm="", n=2))
    if len(lines) > MAX_DIFF_LINES:
        more = len(lines) - MAX_DIFF_LINES
        lines = [*lines[:MAX_DIFF_LINES], f"[{more} more lines of the diff]"]
    return "\n".join(lines)


def _side(letter: str, path: str, text: str | None) -> str:
    return "/dev/null" if text is None else f"{letter}/{path}"


def same_file(path: str) -> str:
    """The normalized path, whether or not the file exists."""
    return posixpath.normpath(posixpath.join(WORKSPACE, path))


def shown_name(name: str) -> str:
    """The name, or a JSON string if it contains line breaks, escapes or direction changes.

    Otherwise a crafted file name could forge lines of the output.
    """
    is_plain = name.isprintable() and name == name.strip() and not name.startswith('"')
    return name if is_plain else json.dumps(name)
