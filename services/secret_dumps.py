"""Finds known values in dumps of bytes, as `xxd`, `hexdump` and `od` print them."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

_LINE = re.compile(
    r"^(?:[ \t]*+[0-9A-Fa-f]{4,16}+:|[0-9A-Fa-f]{6,16}+(?=[ \t]))?+"
    r"(?P<words>(?:[ \t]{1,2}+[0-9A-Fa-f]{2,16}+(?![^ \t\r\n]))++)(?P<rest>[^\n]*+)$",
    re.MULTILINE,
)
_LETTERS = re.compile(
    r"^[0-9A-Fa-f]{6,8}+(?P<fields>(?: {3}\S| {2}\\\S| [0-7]{3}| {4})++) *+\r?$", re.MULTILINE
)
_ESCAPES = {"\\0": 0, "\\a": 7, "\\b": 8, "\\t": 9, "\\n": 10, "\\v": 11, "\\f": 12, "\\r": 13}


class _Dumped(Struct, frozen=True):
    """A line of a dump."""

    start: int
    end: int
    words: Sequence[str]


def in_numbers(text: str, values: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Where dumps have values in numbers: whole lines, as some repeat them in letters."""
    for lines in _blocks(map(_line, _LINE.finditer(text))):
        for read in (_bytes, _swapped, _octal):
            yield from _in_lines(lines, read, values)


def in_letters(text: str, values: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Where dumps have values letter by letter, in whole lines."""
    for lines in _blocks(map(_of_letters, _LETTERS.finditer(text))):
        yield from _in_lines(lines, _said, values)


def _line(match: re.Match[str]) -> _Dumped:
    words = match["words"]
    if "|" not in match["rest"]:
        # Two spaces are before the letters of the line, which may look like words.
        words = words.strip().partition("  ")[0]
    return _Dumped(match.start(), match.end(), words.split())


def _of_letters(match: re.Match[str]) -> _Dumped:
    fields = match["fields"]
    words = [fields[at : at + 4].strip() for at in range(0, len(fields), 4)]
    return _Dumped(match.start(), match.end(), words)


def _blocks(lines: Iterator[_Dumped]) -> Iterator[list[_Dumped]]:
    """Lines that follow one another."""
    block: list[_Dumped] = []
    for line in lines:
        if block and line.start != block[-1].end + 1:
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _in_lines(
    lines: Sequence[_Dumped], read: Callable[[str], bytes], values: Sequence[bytes]
) -> Iterator[tuple[int, int]]:
    try:
        data = [b"".join(map(read, line.words)) for line in lines]
    except ValueError:
        return  # they are something else
    whole = b"".join(data)
    found = [value for value in values if value in whole]
    ends = list(accumulate(map(len, data))) if found else []
    for value in found:
        at = whole.find(value)
        while at >= 0:
            first = lines[bisect_right(ends, at)]
            last = lines[bisect_right(ends, at + len(value) - 1)]
            yield first.start, last.end
            at = whole.find(value, at + 1)


def _bytes(word: str) -> bytes:
    return bytes.fromhex(word)


def _swapped(word: str) -> bytes:
    """A number that was read from memory, its last byte first."""
    return bytes.fromhex(word)[::-1]


def _octal(word: str) -> bytes:
    """A byte in three digits, or two of them as one number in six."""
    if len(word) not in (3, 6):
        raise ValueError(word)
    return int(word, 8).to_bytes(len(word) // 3, "little")


def _said(word: str) -> bytes:
    """A byte as its letter."""
    if len(word) == 3:
        return bytes((int(word, 8) & 0xFF,))
    if word in _ESCAPES:
        return bytes((_ESCAPES[word],))
    return word[-1:].encode() or b" "
