"""How a known secret is written, and where a text has it."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import AnyStr
from urllib.parse import quote, quote_plus

Span = tuple[int, int]

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]")
_NOT_BASE64 = bytes({*range(256)} - {ord(c) for c in map(chr, range(128)) if _BASE64.match(c)})
_HEX = re.compile(r"[0-9A-Fa-f]")
_NOT_HEX = bytes({*range(256)} - set(b"0123456789ABCDEFabcdef"))
_LINE_ENDS = ("\\n", "\\r")
"""As they are written in JSON."""
_HEX_MARKS = ("0x", "0X")


class Spellings:
    """The ways in which a number of values can stand in text."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        every = [(value, value.encode("utf-8", "surrogateescape")) for value in values]
        self.plain = _unique(each for value, data in every for each in _plain(value, data))
        """Looked for as they are."""
        self.in_base64 = _unique(each for _, data in every for each in _in_base64(data))
        self.in_hex = _unique(data.hex() for _, data in every)
        self._base64 = [each.encode() for each in self.in_base64]
        self._hex = [each.encode() for each in self.in_hex]

    def find(self, text: str) -> Iterator[Span]:
        """Where a text has one of them; lines and separators may cut base64 and digits."""
        for value in self.plain:
            if value in text:
                yield from _occurrences(text, value)
        if self._hex:
            yield from _between(text, self._base64, _BASE64, _NOT_BASE64, _LINE_ENDS)
            yield from _between(text, self._hex, _HEX, _NOT_HEX, _HEX_MARKS)


def _between(
    text: str, values: Sequence[bytes], letter: re.Pattern[str], others: bytes, marks: Sequence[str]
) -> Iterator[Span]:
    """Where a text has values among other characters than those of their alphabet."""
    for mark in marks:
        text = text.replace(mark, "  ")
    letters = text.encode("utf-8", "replace").translate(None, others)
    if letter is _HEX:
        letters = letters.lower()
    found = [each for each in values if len(each) <= len(letters) and each in letters]
    if found:
        places = [match.start() for match in letter.finditer(text)]
        for value in found:
            for first, last in _occurrences(letters, value):
                yield places[first], places[last - 1] + 1


def _occurrences(text: AnyStr, value: AnyStr) -> Iterator[Span]:
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value)
        at = text.find(value, at + 1)


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _plain(value: str, data: bytes) -> Iterator[str]:
    """As it is, and in texts of JSON, Python and URLs."""
    yield value
    in_python = repr(value), repr(f'"{value}')[1:]  # which escapes ' in a text that has both
    for plain in (json.dumps(value), json.dumps(value, ensure_ascii=False), *in_python):
        yield plain[1:-1]
        # JSON in JSON.
        yield json.dumps(plain[1:-1])[1:-1]
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)


def _in_base64(data: bytes) -> Iterator[str]:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            yield _base64_inside(data, offset, encode)


def _base64_inside(data: bytes, offset: int, encode: Callable[[bytes], bytes]) -> str:
    """What is always there when `data` stands `offset` bytes (modulo 3) into what is encoded."""
    encoded = encode(bytes(offset) + data).decode().rstrip("=")
    first = (0, 2, 3)[offset]
    whole = (offset + len(data)) * 8 // 6
    return encoded[first:whole]
