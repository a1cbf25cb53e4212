"""Secrets taken out of text that comes in pieces, of which each may end within one.

What may go on to be a secret is held back until it is whole: the last word if it has digits or
marks, and what a known value begins with. Ordinary words are passed on at once.
Digits of a known value that spaces or lines keep apart are passed on: to hold back each number
would hold back tables, and the whole text, which replaces this one, is redacted anew.
"""

import re
from collections.abc import Mapping, Sequence

from services.redaction.redactor import HEAD_CHARS, MASK, MIN_SECRET_CHARS, Redactor
from services.redaction.secret_shapes import BEGINNINGS, KEY_BEGINNING

_CONTEXT = 160
"""So much of what was passed on is looked at with what follows it."""
_OFTEN = 512
"""What is held back and longer is not looked at again for each letter."""
_MOST = 64 * 1024
"""Longer than any secret: then nothing more is held back."""

_IN_WORDS = "".join(map(chr, range(0x21, 0x7F)))
_TELLING = re.compile(r"[-_:=.%\\\d]|AIza|A[KS]IA|eyJ")
"""Is in every word that may be a secret, once its mark is whole."""
_QUOTING = "\"'`([{<*,;"
_HEADS = (":", "=", "earer", "EARER", "asic")
"""What ends before a secret that has a name."""
_GAP = 12
"""So many spaces may be between."""
_BASE64_LINE = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}={0,2}\s+\Z")
"""A line that may go on in the next."""


class RedactedStream:
    """A text that comes in pieces, and goes on without secrets."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._text = ""
        """What is held back, and some of what was before it."""
        self._shown = 0
        """So much of it has been passed on."""
        self._may_grow = False
        """What comes next may be the rest of a secret."""
        self._looked_at = 0

    def feed(self, more: str) -> str:
        """What can be passed on, now that there is more."""
        text = self._text = self._text + more
        held = len(text) - self._shown
        if _OFTEN < held <= _MOST and len(text) * 8 < self._looked_at * 9:
            return ""
        self._looked_at = len(text)
        # All of a secret that is in no beginning has come at once.
        is_suspect = self._may_grow or len(more) >= MIN_SECRET_CHARS
        end = self._held_from(text) if held <= _MOST else len(text)
        self._may_grow = end < len(text)
        if is_suspect:
            said, end = self._clean(end)
        else:
            said = text[self._shown : end]
        self._shown = end
        if end > 4 * _CONTEXT:
            self._text, self._shown = _since(text, end - _CONTEXT), _CONTEXT
            self._looked_at = len(self._text)
        return said

    def finish(self) -> str:
        """What was held back, now that there is no more."""
        said, _ = self._clean(len(self._text)) if self._shown < len(self._text) else ("", 0)
        self._text, self._shown, self._may_grow, self._looked_at = "", 0, False, 0
        return said

    def _clean(self, end: int) -> tuple[str, int]:
        """What is to be passed on up to a place, and that place, which is in no secret."""
        low = max(0, self._shown - _CONTEXT)
        at = self._shown
        parts: list[str] = []
        for first, last in self._redactor.spans(_since(self._text, low)):
            if low + first < end < low + last:
                end = max(self._shown, low + first)
            elif at < low + last <= end:
                parts += (self._text[at : max(at, low + first)], MASK)
                at = low + last
        return "".join((*parts, self._text[at:end])), end

    def _held_from(self, text: str) -> int:
        """From where on the text may go on to be a secret; its end where it may not."""
        end = _begun_from(self._redactor.known.spellings.heads, text, self._shown)
        if "-" in text[self._shown :] and (key := KEY_BEGINNING.search(text, self._shown)):
            end = min(end, key.start())
        return max(self._shown, min(end, _word_from(text)))


def _begun_from(heads: Mapping[str, Sequence[str]], text: str, at: int) -> int:
    """From where on, after a place, a text may go on to be a known value; else where it ends."""
    for start in range(at, len(text)):
        several = heads.get(text[start : start + HEAD_CHARS])
        if several is None:
            continue
        rest = text[start:]
        if len(rest) < HEAD_CHARS or any(
            len(each) > len(rest) and each.startswith(rest) for each in several
        ):
            return start
    return len(text)


def _word_from(text: str) -> int:
    """Where the last word begins, if it may be a secret; else where the text ends."""
    begin = len(text.rstrip(_IN_WORDS))
    while line := _BASE64_LINE.search(text, max(0, begin - _CONTEXT), begin):
        begin = line.start()
    word = text[begin:]
    is_named = text[max(0, begin - _GAP) : begin].rstrip().endswith(_HEADS)
    if is_named or _TELLING.search(word) or "\n" in word or word.lstrip(_QUOTING) in BEGINNINGS:
        return begin
    return len(text)


def _since(text: str, at: int) -> str:
    """The text from a place, which is not taken for the beginning of a line where it is none."""
    return text[at:] if not at or text[at - 1] == "\n" else f"|{text[at + 1 :]}"
