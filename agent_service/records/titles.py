"""Titles of sessions that nobody has named."""

import re

TITLE_CHARS = 60

_FENCE = re.compile(r"^\s*(```|~~~)")
_MARKUP = re.compile(r"^[#>*\-+\s]+|[`*_]{2,}|`")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_SENTENCE = re.compile(r"(?<=[.!?])\s|(?<=[\u3002\uff01\uff1f])")
_LABEL = re.compile(r"title\s*:\s*", re.IGNORECASE)
_QUOTES = "\"'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a\u300c\u300d "
_GREETING = re.compile(r"(?:hi|hey|hello|dear)\b[^.!?\n]{0,20}[,.!]\s+(?=\S)", re.IGNORECASE)


def title_of(text: str) -> str:
    """Return a title from a first message, always the same; empty for a message without text.

    It is the first sentence of the first line that says something, without markup and greeting.
    """
    for line in text.splitlines():
        if _FENCE.match(line):
            continue
        cleaned = " ".join(_MARKUP.sub("", _UNSEEN.sub(" ", line)).split())
        if any(letter.isalnum() for letter in cleaned):
            return _short(_GREETING.sub("", cleaned, count=1))
    return _short(" ".join(_UNSEEN.sub(" ", text).split()))


def made_title(text: str) -> str:
    """Return a title from a model's answer: its first line with text, cleaned up."""
    for line in text.splitlines():
        cleaned = " ".join(_MARKUP.sub("", _UNSEEN.sub(" ", line)).split())
        named = _LABEL.sub("", cleaned.strip(_QUOTES), count=1).strip(_QUOTES)
        if any(letter.isalnum() for letter in named):
            return _cut(named)
    return ""


def _short(said: str) -> str:
    return _cut(_SENTENCE.split(said, maxsplit=1)[0])


def _cut(said: str) -> str:
    if len(said) <= TITLE_CHARS:
        return said.rstrip(".\u3002")
    cut, reach = said[: TITLE_CHARS - 1], said[:TITLE_CHARS]
    whole, space, _ = reach.rpartition(" ")
    # A word longer than half the title is cut, too.
    return f"{(whole if space and len(whole) > TITLE_CHARS // 2 else cut).rstrip(' ,;:.')}…"
