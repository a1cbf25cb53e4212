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

_BEGUN_NUMBERS = re.compile(
    r"(?:[ \t]*+[0-9A-Fa-f]{4,16}+:|[0-9A-Fa-f]{6,16}+(?=[ \t]))?+"
    r"(?P<words>(?:[ \t]{1,2}+[0-9A-Fa-f]{2,16}+(?![^ \t\r\n]))*(?:[ \t]{1,2}[0-9A-Fa-f]*)?)"
    r"(?:(?<=[0-9A-Fa-f])[ \t]{2}[^\n]*+)?\r?\Z"
)
_BEGUN_LETTERS = re.compile(
    r"[0-9A-Fa-f]{6,8}+(?P<words>(?: {3}\S| {2}\\\S| [0-7]{3}| {4})*+"
    r"(?: {2}\\| [0-7]{1,2}| {1,3})?+)\r?\Z"
)
_BEGUN = (
    _BEGUN_NUMBERS,
    _BEGUN_LETTERS,
    re.compile(r"[ \t]*+[0-9A-Fa-f]{0,16}+:?(?P<words>)\Z"),
)
"""What lines of dumps look like that are not whole, the last one whose words have not begun."""
_DIGIT = re.compile(r"\d")


class Dumped(Struct, frozen=True):
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


def begun_line(text: str, at: int) -> int | None:
    """Where the words begin of a last line that may become one of a dump; where it ends before."""
    found = [begun for pattern in _BEGUN if (begun := pattern.match(text, at)) is not None]
    for begun in found:
        # Each byte of a text has a digit, in whatever numbers; words of prose have none.
        if begun.re is _BEGUN_LETTERS or _DIGIT.search(begun["words"]):
            return begun.end("words") - len(begun["words"].lstrip(" \t"))
    return len(text) if found else None


def at_the_end(text: str) -> Iterator[tuple[list[Dumped], list[bytes]]]:
    """The lines of a dump that a text ends with, and what each has, in all ways to read them."""
    numbers, letters = (_bytes, _swapped, _octal), (_said,)
    for pattern, line, reads in ((_LINE, _line, numbers), (_LETTERS, _of_letters, letters)):
        for lines in _blocks(map(line, pattern.finditer(text))):
            if lines[-1].end != len(text):
                continue
            for read in reads:
                *_, last = _readable(lines, read)
                if last[0]:
                    yield last


def _line(match: re.Match[str]) -> Dumped:
    words = match["words"]
    if "|" not in match["rest"]:
        # Two spaces are before the letters of the line, which may look like words.
        words = words.strip().partition("  ")[0]
    return Dumped(match.start(), match.end(), words.split())


def _of_letters(match: re.Match[str]) -> Dumped:
    fields = match["fields"]
    words = [fields[at : at + 4].strip() for at in range(0, len(fields), 4)]
    return Dumped(match.start(), match.end(), words)


def _blocks(lines: Iterator[Dumped]) -> Iterator[list[Dumped]]:
    """Lines that follow one another."""
    block: list[Dumped] = []
    for line in lines:
        if block and line.start != block[-1].end + 1:
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _in_lines(
    lines: Sequence[Dumped], read: Callable[[str], bytes], values: Sequence[bytes]
) -> Iterator[tuple[int, int]]:
    for some, data in _readable(lines, read):
        whole = b"".join(data)
        found = [value for value in values if value in whole] if whole else []
        ends = list(accumulate(map(len, data))) if found else []
        for value in found:
            at = whole.find(value)
            while at >= 0:
                first = some[bisect_right(ends, at)]
                last = some[bisect_right(ends, at + len(value) - 1)]
                yield first.start, last.end
                at = whole.find(value, at + 1)


def _readable(
    lines: Sequence[Dumped], read: Callable[[str], bytes]
) -> Iterator[tuple[list[Dumped], list[bytes]]]:
    """Lines up to a word that cannot be read so, with what they have; last of all, those behind."""
    some, data = list[Dumped](), list[bytes]()
    for line in lines:
        some.append(line)
        data.append(b"")
        try:
            for word in line.words:
                data[-1] += read(word)
        except ValueError:
            yield some, data
            some, data = [], []
    yield some, data


def _bytes(word: str) -> bytes:
    return bytes.fromhex(word)


def _swapped(word: str) -> bytes:
    """A number that was read from memory, its last byte first."""
    return bytes.fromhex(word)[::-1]


def _octal(word: str) -> bytes:
    """A byte in three digits, or two of them as one number in six."""
    width = {3: 1, 6: 2}.get(len(word), 0)
    number = int(word, 8)
    if number >> 8 * width:
        raise ValueError(word)
    return number.to_bytes(width, "little")


def _said(word: str) -> bytes:
    """A byte as its letter."""
    if len(word) == 3:
        return bytes((int(word, 8) & 0xFF,))
    if word in _ESCAPES:
        return bytes((_ESCAPES[word],))
    return word[-1:].encode() or b" "
