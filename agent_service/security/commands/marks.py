"""Characters that stand for unknown text, and the plain spelling of a command.

The marks are control characters without a Unicode meaning, and below U+0100 (see `Shell`).
"""

import re
import unicodedata

UNKNOWN = "\x91"
"""Any text: a variable or an output that the command does not determine."""
REMOTE = "\x92"
"""Text from the network."""
DECODED = "\x93"
"""Encoded text that could not be decoded here."""
EVERY_PROCESS = "\x94"
"""The unfiltered list of all processes."""
ANY = UNKNOWN + REMOTE + DECODED + EVERY_PROCESS

_MARKS = str.maketrans("", "", ANY)
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\r?\n")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def plain(text: str) -> str:
    """A command with compatible spellings folded and invisible characters removed."""
    text = text.translate(_MARKS)
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = text.replace("\0", "").replace("\r\n", "\n")
    return _CONTINUED.sub(r"\1", text) if "\\\n" in text else text


def without_marks(text: str) -> str:
    """The text with unknown parts removed."""
    return text.translate(_MARKS)


def marks(text: str) -> str:
    """The distinct marks of a text."""
    return "".join(mark for mark in ANY if mark in text)


def is_one(text: str) -> bool:
    """Whether the unknown text is a single piece that is not split into words."""
    return sum(map(text.count, ANY)) <= 1


def is_known(text: str) -> bool:
    """Whether nothing in the text is unknown."""
    return not any(mark in text for mark in ANY)
