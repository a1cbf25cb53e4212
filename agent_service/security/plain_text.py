"""Reads text as a person would: folds look-alikes, drops invisible characters, decodes codes."""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

from msgspec import Struct

# Look-alike letters of other alphabets, and digits that stand for letters.
_LIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u0432\u043a"
    "\u043c\u043d\u0442\u0433\u03b1\u03bf\u03c1\u03bd\u03b9\u03ba\u03c4\u03c5\u03c7\u03b5\u0131\u0261"
    "\u0269\u026a\u0280\u1d00\u1d04\u1d05\u1d07\u1d0a\u1d0b\u1d0d\u1d0f\u1d18\u1d1b\u1d1c\u1d20\u1d21"
    "\u1d22\u0274\u029f\u0262\u029c\u028f\u0299\ua730\ua731\u0585\u0578\u057d\u0570\u0566\u0581",
    "aeopcyxijshdqwbkmhtraopviktuxeigiiracdejkmoptuvwznlghybfsouuhqg",
)
# Includes strokes and slashes that overlay letters.
_INVISIBLE = re.compile(
    "[\u0334-\u0338\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_APART = re.compile(r"(?<!\w)(?:\w[ .*_-]){5,}\w(?!\w)")
_APART_TOO = re.compile(r"(?<!\w)(?:\w[ .*_-]){2,}\w(?!\w)")
"""Short words spelt with gaps between long words."""
_DIGITS = str.maketrans("013457@$", "oieastas")
_GAP_CHARS = 64
_GAP = re.compile(rf"\W{{{_GAP_CHARS + 1},}}")
_LEET = re.compile(r"(?<![\w@$])(?=\w*[a-z])(?=[\w@$]*[013457@$])[a-z013457@$]{4,}(?![\w@$])")


class Plain(Struct, frozen=True):
    """Plain text with the original position of each character."""

    text: str
    places: tuple[int, ...] | None
    """None if no character has moved."""

    def place(self, at: int) -> int:
        return at if self.places is None else self.places[min(at, len(self.places) - 1)]


def read(text: str) -> Plain:
    """The text in lower case, as a person reads it.

    Shortens long gaps between words, since matching around them takes quadratic time.
    """
    return _closed(_read(text))


def _read(text: str) -> Plain:
    if text.isascii():
        lowered = text.lower()
        if not _APART.search(lowered) and not _LEET.search(lowered):
            return Plain(lowered, None)
        return _join(lowered, tuple(range(len(lowered))))
    letters: list[str] = []
    places: list[int] = []
    for at, char in enumerate(text):
        if char.isascii():
            letters.append(char.lower())
            places.append(at)
        elif not _INVISIBLE.match(char):
            folded = unicodedata.normalize("NFKC", char).lower().translate(_LIKE)
            letters += folded
            places += [at] * len(folded)
    places.append(len(text))
    return _join("".join(letters), tuple(places))


def _closed(plain: Plain) -> Plain:
    text = plain.text
    if not _GAP.search(text):
        return plain
    places = plain.places or range(len(text))
    letters: list[str] = []
    kept: list[int] = []
    begin = 0
    for match in _GAP.finditer(text):
        end = match.start() + _GAP_CHARS // 2
        letters.append(text[begin:end])
        kept += places[begin:end]
        begin = match.end() - _GAP_CHARS // 2
    letters.append(text[begin:])
    return Plain("".join(letters), (*kept, *places[begin:]))


def _join(text: str, places: tuple[int, ...]) -> Plain:
    text = _LEET.sub(_without_digits, text)
    letters: list[str] = []
    kept: list[int] = []
    end = 0
    apart = _APART_TOO if _APART.search(text) else _APART
    for match in apart.finditer(text):
        letters.append(text[end : match.start()])
        kept += places[end : match.start()]
        letters.append(re.sub(r"[ .*_-]", "", match[0]))
        kept += places[match.start() : match.end() : 2]
        end = match.end()
    letters.append(text[end:])
    return Plain("".join(letters), tuple(kept) + tuple(places[end:]) or (0,))


def _without_digits(match: re.Match[str]) -> str:
    """A word with digits as letters, unless it is a URL."""
    is_address = "@" in match[0][1:] and match.string.startswith(".", match.end())
    return match[0] if is_address else match[0].translate(_DIGITS)


def fold(text: str) -> str:
    """The text with look-alike letters folded as in `read`."""
    return text.translate(_LIKE)


def invisible_at(text: str) -> list[int]:
    """Positions of characters that hide text or change its direction."""
    if text.isascii():
        return []
    return [
        match.start()
        for match in re.finditer(
            "[\u202a-\u202e\u2066-\u2069\u200b\u2060-\u2064\U000e0001-\U000e007f]", text
        )
    ]


# Encoded text

_BASE64 = re.compile(r"(?<![\w+/=])[A-Za-z0-9+/]{24,4000}={0,2}(?![\w+/=])")
# MIME parts, configuration and data URLs declare an encoding.
_DECLARED = re.compile(
    r"content-transfer-encoding: ?base64\b[^\n]{0,80}\n(?:[^\n]{1,998}\n){0,20}?\s*?\n"
    r"[A-Za-z0-9+/=\s>]+|;base64,[A-Za-z0-9+/=]+"
    r"|(?<![A-Za-z0-9+/=\\])[A-Za-z0-9+/=\\]++\"\s*,\s*\"encoding\"\s*:\s*\"base64\"",
    re.IGNORECASE,
)
_HEX = re.compile(r"(?<![0-9a-fA-F])(?:[0-9a-fA-F]{2}){12,2000}(?![0-9a-fA-F])")
_SPACED_HEX = re.compile(
    r"(?<![\w:])(?:(?:0x)?[0-9a-fA-F]{2}[ ,]{1,2}){11,2000}(?:0x)?[0-9a-fA-F]{2}\b"
)
_BITS = re.compile(r"(?:[01]{8}\s+){6,}[01]{8}")
_ESCAPED = re.compile(
    r"(?:(?:%[0-9a-fA-F]{2}){4}|(?:&#x?[0-9a-fA-F]{2,6};){4}|(?:\\u[0-9a-fA-F]{4}){4}"
    r"|(?:\\x[0-9a-fA-F]{2}){4})[^\n]{0,2000}"
)
_CODE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
# ROT13 of words that occur in injections.
_TURNED = re.compile(
    r"\b(?:vtaber|qvfertneq|sbetrg|vafgehpgvbaf?|cebzcg|cnffjbeqf?|thvqryvarf)\b", re.IGNORECASE
)
_BACKWARDS = re.compile(r"\b(?:snoitcurtsni|noitcurtsni|erongi|dragersid|tegrof|tpmorp|seluR)\b")
_WORDS = re.compile(r"[A-Za-z][A-Za-z']{0,19}(?=[\s.,;:!?]|$)")
_FUNCTION_WORDS = re.compile(
    r"\b(?:the|and|to|of|is|are|you|your|in|that|for|this|with|what|not|if|on|it)\b", re.IGNORECASE
)
_FEWEST_WORDS = 7
_FEWEST_FUNCTION_WORDS = 3


def is_prose(hidden: str) -> bool:
    """Whether decoded text is an English sentence, which is suspicious."""
    words = _WORDS.findall(hidden)
    letters = sum(map(len, words)) + len(words)
    return (
        len(words) >= _FEWEST_WORDS
        and letters > len(hidden) * 0.6
        and len(set(_FUNCTION_WORDS.findall(hidden.lower()))) >= _FEWEST_FUNCTION_WORDS
    )


class Encoded(Struct, frozen=True):
    """Decoded text, from `begin` to `end` of the original."""

    begin: int
    end: int
    plain: str
    is_hidden: bool = False
    """Whether the encoding suggests that the text is hidden on purpose."""


def encoded(text: str) -> Iterator[Encoded]:
    """Finds encoded passages in a text."""
    declared = [match.span() for match in _DECLARED.finditer(text)]
    for match in _BASE64.finditer(text):
        try:
            data = base64.b64decode(match[0] + "=" * (-len(match[0]) % 4))
        except (binascii.Error, ValueError):
            continue
        is_declared = any(begin <= match.start() < end for begin, end in declared)
        plain = data.decode("utf-8", "replace")
        yield Encoded(match.start(), match.end(), plain, is_hidden=not is_declared)
    for match in (*_HEX.finditer(text), *_SPACED_HEX.finditer(text)):
        digits = re.sub(r"0x|[ ,]", "", match[0])
        plain = bytes.fromhex(digits).decode("utf-8", "replace")
        yield Encoded(match.start(), match.end(), plain, is_hidden=True)
    for match in _BITS.finditer(text):
        letters = (chr(int(bits, 2)) for bits in match[0].split())
        yield Encoded(match.start(), match.end(), "".join(letters), is_hidden=True)
    for match in _ESCAPED.finditer(text):
        yield Encoded(match.start(), match.end(), _unescaped(match[0]))
    yield from _disguised(text)


def _unescaped(text: str) -> str:
    text = html.unescape(unquote(text)) if "%" in text or "&#" in text else text
    return _CODE.sub(lambda code: chr(int(code[1] or code[2], 16)), text)


def _disguised(text: str) -> Iterator[Encoded]:
    for pattern in (_TURNED, _BACKWARDS):
        end = -1
        for match in pattern.finditer(text):
            if match.start() < end:
                continue
            begin = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            end = len(text) if end < 0 else end
            line = text[begin:end]
            plain = codecs.encode(line, "rot13") if pattern is _TURNED else line[::-1]
            yield Encoded(begin, end, plain)
