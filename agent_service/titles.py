"""What a session is called before anybody gives it a name: how its first message begins."""

import re

TITLE_CHARS = 60

_FENCE = re.compile(r"^\s*(```|~~~)")
_MARKUP = re.compile(r"^[#>*\-+\s]+|[`*_]{2,}|`")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_SENTENCE = re.compile(r"(?<=[.!?])\s|(?<=[\u3002\uff01\uff1f])")
_GREETING = re.compile(r"(?:hi|hey|hello|dear)\b[^.!?\n]{0,20}[,.!]\s+(?=\S)", re.IGNORECASE)


def title_of(text: str) -> str:
    """The title that a first message makes, always the same one; empty for a message without text.

    It is the first sentence of the first line that says something, without markup and greeting.
    """
    for line in text.splitlines():
        if _FENCE.match(line):
            continue
        said = " ".join(_MARKUP.sub("", _UNSEEN.sub(" ", line)).split())
        if any(letter.isalnum() for letter in said):
            return _short(_GREETING.sub("", said, count=1))
    return _short(" ".join(_UNSEEN.sub(" ", text).split()))


def _short(said: str) -> str:
    sentence = _SENTENCE.split(said, maxsplit=1)[0]
    if len(sentence) <= TITLE_CHARS:
        return sentence.rstrip(".\u3002")
    cut, reach = sentence[: TITLE_CHARS - 1], sentence[:TITLE_CHARS]
    whole, space, _ = reach.rpartition(" ")
    # A word that is longer than half of it is cut, too.
    return f"{(whole if space and len(whole) > TITLE_CHARS // 2 else cut).rstrip(' ,;:.')}…"
