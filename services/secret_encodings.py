"""Finds known values in what encoders, dumps of bytes and wrapped lines make of them.

A text is first asked whether it has what the letters of an encoding look like, which takes a
microsecond; only then is it read letter by letter. Every step takes time by the length of the text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from urllib.parse import unquote_to_bytes

from services.secret_dumps import in_letters, in_numbers
from services.secret_shapes import LONG
from services.secret_spellings import Spellings

Span = tuple[int, int]

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_HEX = b"0123456789ABCDEFabcdef"
_BETWEEN_HEX = bytes(sorted({*range(0x30)} | set(b":;<=>?@[\\]^_`{|}~xX")))
"""What may stand between the digits of two bytes, and the backslash and the x of escapes."""

_BASE64_LIKE = bytes(98 if byte in _BASE64 else 46 for byte in range(256))
_BASE64_ONLY = bytes(byte if byte in _BASE64 else 32 for byte in range(256))
_HEX_LIKE = bytes(104 if byte in _HEX else 46 for byte in range(256))
_NOT_HEX = bytes(set(range(256)) - set(_HEX))
_RUN_OF_BASE64, _RUN_OF_HEX = b"b" * LONG, b"h" * LONG

HEX_DIGIT = re.compile(r"0(?![xX])|[1-9A-Fa-f]")
_RUN = "[A-Za-z0-9+/_-]"
_BREAK = re.compile(
    rf"(?:\n(?<={_RUN}{{{LONG}}}\n)|\r(?<={_RUN}{{{LONG}}}\r)\n|\\n(?<={_RUN}{{{LONG}}}\\n)"
    rf"|\\r\\n(?<={_RUN}{{{LONG}}}\\r\\n))[ \t]*+(?P<rest>{_RUN}++)"
)
"""Where a long run goes on in the next line."""
_LAST_RUN = re.compile(rf"(?<!{_RUN}){_RUN}++\Z")
_REACH = 4096
"""So much of a line is looked at."""
_PERCENT_WORD = re.compile(r"(?<!\S)[^\s%]*+(?:%[^\s%]*+)++")
_PERCENT_BYTE = re.compile(r"%[0-9A-Fa-f]{2}|[\s\S]")


class Letters:
    """What the letters of a text look like."""

    def __init__(self, text: str) -> None:
        self._data = data = text.encode("utf-8", "replace")
        self.runs: bytes = b""
        """Its runs of base64 and its alphabets that are long."""
        self.longest_run = 0
        if _RUN_OF_BASE64 in data.translate(_BASE64_LIKE):
            runs = data.translate(_BASE64_ONLY).split()
            self.longest_run = max(map(len, runs))
            self.runs = b" ".join([run for run in runs if len(run) >= LONG])
        self.have_hex = _RUN_OF_HEX in data.translate(_HEX_LIKE, _BETWEEN_HEX)

    @property
    def in_hex(self) -> bytes:
        """All its hexadecimal digits, one after the other."""
        digits = self._data.lower().replace(b"0x", b"")
        return digits.translate(None, _NOT_HEX)


def encoded(text: str, letters: Letters, known: Spellings) -> Iterator[Span]:
    """Where a text has known values in an encoding."""
    if letters.runs:
        for spelling in known.in_base64:
            if spelling in letters.runs:
                yield from occurrences(text, spelling.decode())
        yield from _wrapped(text, known.in_base64)
    if letters.have_hex:
        yield from _in_hex(text, letters.in_hex, known.in_hex)
        yield from in_numbers(text, known.data)
    if "   " in text and (text.startswith("00") or "\n00" in text):
        yield from in_letters(text, known.data)
    if "%" in text:
        for spelling in known.quoted:
            if spelling in text:
                yield from occurrences(text, spelling)
        yield from _percent(text, known.data)


def occurrences(text: str, value: str) -> Iterator[Span]:
    """Where a text has a value."""
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value)
        at = text.find(value, at + 1)


def _in_hex(text: str, digits: bytes, values: Sequence[bytes]) -> Iterator[Span]:
    """Bytes in hexadecimal digits, of both cases, whatever stands between them."""
    found = [value for value in values if value in digits]
    if not found:
        return
    places = [match.start() for match in HEX_DIGIT.finditer(text)]
    for value in found:
        at = digits.find(value)
        while at >= 0:
            yield places[at], places[at + len(value) - 1] + 1
            at = digits.find(value, at + 1)


def _wrapped(text: str, spellings: Sequence[bytes]) -> Iterator[Span]:
    """Base64 that goes on in the next line."""
    blocks = list(base64_lines(text))
    every = "\n".join(["".join([text[first:last] for first, last in each]) for each in blocks])
    data = every.encode()
    for spelling in [each.decode() for each in spellings if each in data]:
        for pieces, whole in zip(blocks, every.split("\n"), strict=True):
            ends = list(accumulate(last - first for first, last in pieces))
            for first, last in occurrences(whole, spelling):
                yield place_in(pieces, ends, first), place_in(pieces, ends, last - 1) + 1


def base64_lines(text: str) -> Iterator[list[Span]]:
    """Lines of base64 that follow one another."""
    block: list[Span] = []
    for match in _BREAK.finditer(text):
        at = match.start()
        if block and block[-1][1] != at:
            yield block
            block = []
        if not block:
            low = max(text.rfind("\n", 0, at) + 1, at - _REACH)
            run = _LAST_RUN.search(text, low, at)
            block.append((low if run is None else run.start(), at))
        block.append(match.span("rest"))
    if block:
        yield block


def place_in(pieces: Sequence[Span], ends: Sequence[int], index: int) -> int:
    """Where a text has the letter that the lines of a block together have at an index."""
    line = bisect_right(ends, index)
    return pieces[line][1] - (ends[line] - index)


def _percent(text: str, values: Sequence[bytes]) -> Iterator[Span]:
    """Words of which any letters have percent signs."""
    for match in _PERCENT_WORD.finditer(text):
        data = _unquoted(match[0])
        found = [value for value in values if value in data]
        if not found:
            continue
        places = _places(match[0])
        for value in found:
            at = data.find(value)
            while at >= 0:
                yield match.start() + places[at], match.start() + places[at + len(value)]
                at = data.find(value, at + 1)


def percent_decoded(word: str) -> tuple[bytes, list[int]]:
    """The bytes of a word that may have percent signs, and where each of them and the end are."""
    return _unquoted(word), _places(word)


def _unquoted(word: str) -> bytes:
    return unquote_to_bytes(word.encode("utf-8", "surrogatepass"))


def _places(word: str) -> list[int]:
    places = [0]
    for letter in _PERCENT_BYTE.finditer(word):
        one = len(letter[0]) == 3 or ord(letter[0]) < 0x80
        width = 1 if one else len(letter[0].encode("utf-8", "surrogatepass"))
        places += [letter.end()] * width
    return places
