"""Secrets taken out of text that comes in pieces, of which each may end within one.

What may go on to be a secret is held back until it is one or cannot be one any more; whatever else
there is, which is ordinary text but for a letter now and then, is passed on at once.
"""

import re

from services.redact import MASK, MIN_SECRET_CHARS, Redactor
from services.secret_shapes import BEGINNINGS, KEY_BLOCK, SHAPES

_CONTEXT = 160
"""So much of what was passed on is looked at with what follows it."""
_OFTEN = 512
"""What is held back and longer is not looked at again for each letter."""
_MOST = 64 * 1024
"""Longer than any secret: then nothing more is held back."""

_TELLING = re.compile(r"[-_:=.%\\\d]|AIza|A[KS]IA|eyJ")
"""Is in every word that may be a secret, once a marker of its shape is whole."""
_HEADS = (":", "=", "earer", "EARER", "asic")
_GAP = 12
"""So many spaces may be before a secret that has a name."""
_IN_WORDS = tuple(shape for shape in SHAPES if shape is not KEY_BLOCK)
_QUOTING = "\"'`([{<*,;"


class RedactedStream:
    """A text that comes in pieces, and goes on without secrets."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._text = ""
        """Whatever is held back, and some of what was before it."""
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
        end = self._redactor.known.beginnings.first_in(text, self._shown)
        self._may_grow = end < len(text)
        if "-" in text[self._shown :]:
            end = self._grown(KEY_BLOCK.growing.search(text, self._shown), 0, end)
        begin = max(text.rfind(" "), text.rfind("\n")) + 1
        if text[max(0, begin - _GAP) : begin].rstrip().endswith(_HEADS):
            begin = max(0, begin - _CONTEXT)
        elif not _TELLING.search(text, begin):
            word = text[begin:].lstrip(_QUOTING)
            if word in BEGINNINGS:
                end, self._may_grow = min(end, len(text) - len(word)), True
            return end
        for shape in _IN_WORDS:
            found = shape.growing.search(text, begin)
            if found and (shape.is_meant is None or shape.is_meant(found)):
                end = self._grown(found, shape.growing_group, end)
        return end

    def _grown(self, found: re.Match[str] | None, group: str | int, end: int) -> int:
        if found is None:
            return end
        self._may_grow = True
        return min(end, max(found.start(group), self._shown))


def _since(text: str, at: int) -> str:
    """The text from a place, which is not taken for the beginning of a line where it is none."""
    return text[at:] if not at or text[at - 1] == "\n" else f"|{text[at + 1 :]}"
