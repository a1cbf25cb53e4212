"""Removes secrets from text that arrives in pieces, which may split them.

What may become a secret is held back until it is complete: the last word if it has digits or marks,
and the beginning of a known value. Digits of a known value split by spaces or lines pass: holding
back each number would hold back tables, and the whole text, which replaces this one, is redacted
anew.
"""

import re
from collections.abc import Mapping, Sequence

from services.redaction.redactor import HEAD_CHARS, MASK, MIN_SECRET_CHARS, Redactor
from services.redaction.secret_shapes import BEGINNINGS, KEY_BEGINNING

_CONTEXT = 160
"""How much of the passed text is rescanned with what follows."""
_OFTEN = 512
"""Held text longer than this is not rescanned for each letter."""
_MOST = 64 * 1024
"""Longer than any secret: more than this is never held back."""

_IN_WORDS = "".join(map(chr, range(0x21, 0x7F)))
_TELLING = re.compile(r"[-_:=.%\\\d]|AIza|A[KS]IA|eyJ")
"""In every word that may be a secret, once its mark is complete."""
_QUOTING = "\"'`([{<*,;"
_HEADS = (":", "=", "earer", "EARER", "asic")
"""What precedes a named secret."""
_GAP = 12
"""The most spaces after that."""
_BASE64_LINE = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}={0,2}\s+\Z")
"""A line that may go on in the next."""


class RedactedStream:
    """A text that arrives in pieces and is passed on without secrets."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._text = ""
        """The held text, and some of what was before it."""
        self._shown = 0
        """How much of it has been passed on."""
        self._may_grow = False
        """Whether the next piece may continue a secret."""
        self._looked_at = 0

    def feed(self, more: str) -> str:
        """Add a piece; return what can be passed on."""
        text = self._text = self._text + more
        held = len(text) - self._shown
        if _OFTEN < held <= _MOST and len(text) * 8 < self._looked_at * 9:
            return ""
        self._looked_at = len(text)
        # A secret without a telling beginning has arrived in one piece.
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
        said, _ = self._clean(len(self._text)) if self._shown < len(self._text) else ("", 0)
        self._text, self._shown, self._may_grow, self._looked_at = "", 0, False, 0
        return said

    def _clean(self, end: int) -> tuple[str, int]:
        """Return the redacted text up to a place outside of secrets, and that place."""
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
        """Return where a possible secret begins; the end if there is none."""
        end = _begun_from(self._redactor.known.spellings.heads, text, self._shown)
        if "-" in text[self._shown :] and (key := KEY_BEGINNING.search(text, self._shown)):
            end = min(end, key.start())
        return max(self._shown, min(end, _word_from(text)))


def _begun_from(heads: Mapping[str, Sequence[str]], text: str, at: int) -> int:
    """Return where a known value may begin after `at`; the end of the text if nowhere."""
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
    """Return where the last word begins if it may be a secret; else the end."""
    begin = len(text.rstrip(_IN_WORDS))
    while line := _BASE64_LINE.search(text, max(0, begin - _CONTEXT), begin):
        begin = line.start()
    word = text[begin:]
    is_named = text[max(0, begin - _GAP) : begin].rstrip().endswith(_HEADS)
    if is_named or _TELLING.search(word) or "\n" in word or word.lstrip(_QUOTING) in BEGINNINGS:
        return begin
    return len(text)


def _since(text: str, at: int) -> str:
    """Return the text from `at`, not to be taken for the beginning of a line."""
    return text[at:] if not at or text[at - 1] == "\n" else f"|{text[at + 1 :]}"
