"""Finds where a text that comes in pieces may go on to be a known value, in any spelling.

Only its end is looked at: its last letters, word, digits and lines. Ordinary text ends in nothing
that a value begins with; lines of a dump are whole before any of them is passed on.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from itertools import accumulate

from services.secret_dumps import at_the_end, begun_line
from services.secret_encodings import HEX_DIGIT, base64_lines, percent_decoded, place_in
from services.secret_spellings import Spellings

_HEAD = 4
"""By so many letters what may begin is found."""
_HEX = "0123456789ABCDEFabcdefxX"
_IN_HEX = "".join(map(chr, range(0x30))) + ":;<=>?@[\\]^_`{|}~" + _HEX
_IN_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_OF_DUMPS = tuple(" \t0123456789ABCDEFabcdef")
"""What a line of one may begin with."""
_ESCAPE = re.compile(r"(?P<known>%[0-9A-Fa-f]|(?<!\d)%|(?<=%[0-9A-Fa-f]{2})%)\Z|%\Z")
"""One that is not whole; a percent sign that belongs to a number is none yet."""
_LINE_ENDS = ("", "n", "\\n", "\n")
"""What may be missing of a line end, also of one that is written as in JSON."""


class Beginnings:
    """How the spellings of known values begin."""

    def __init__(self, known: Spellings) -> None:
        self.known = known
        self._by_head: dict[str, list[str]] = {}
        for each in (*known.plain, *(each.decode() for each in known.in_base64)):
            self._by_head.setdefault(each[:_HEAD], []).append(each)
        self._shorter = {head[:size] for head in self._by_head for size in range(1, _HEAD)}
        self._base64 = _Values(known.in_base64)
        self._digits = _Values(known.in_hex)
        self._data = _Values(known.data)

    def first_in(self, text: str, at: int) -> int:
        """From where on, after a place, a text may go on to be one of them; else where it ends."""
        return max(at, min((self._plain(text, at), *self._encoded(text)), default=len(text)))

    def _plain(self, text: str, at: int) -> int:
        shorter, by_head = self._shorter, self._by_head
        for start in range(at, len(text)):
            head = text[start : start + _HEAD]
            if len(head) < _HEAD:
                if head in shorter:
                    return start
            elif (several := by_head.get(head)) and _begins(text[start:], several):
                return start
        return len(text)

    def _encoded(self, text: str) -> Iterator[int]:
        yield from self._in_hex(text)
        yield from self._in_percent(text)
        yield from self._in_base64(text)
        yield from self._in_dumps(text)

    def _in_hex(self, text: str) -> Iterator[int]:
        """Digits, whatever stands between them."""
        begin, end = len(text.rstrip(_IN_HEX)), len(text)
        if begin == end:
            return
        if text.endswith("0") and not text[:-1].endswith(tuple(_HEX)):
            end -= 1  # of 0x, perhaps
        places = [match.start() for match in HEX_DIGIT.finditer(text, begin, end)]
        data = "".join([text[place] for place in places]).lower().encode()
        at = self._digits.first_in(data)
        # A digit some words ago is a number.
        if at < len(data) and (at < len(data) - 1 or places[at] == end - 1):
            yield places[at]

    def _in_percent(self, text: str) -> Iterator[int]:
        """A word with some percent signs."""
        begin = max(text.rfind(" "), text.rfind("\n")) + 1
        if "%" not in text[begin:]:
            return
        escape = _ESCAPE.search(text, begin)
        end = len(text) if escape is None else escape.start()
        data, places = percent_decoded(text[begin:end])
        at = self._data.first_in(data)
        if at < len(data) or (escape is not None and escape["known"]):
            yield begin + places[at]

    def _in_base64(self, text: str) -> Iterator[int]:
        """Lines that go on."""
        before = text.rstrip(_IN_BASE64).rstrip(" \t")
        if not before.endswith(("\n", "\r", "\\")):
            return
        for missing in _LINE_ENDS:
            whole = f"{text}{missing}A"
            lines = list(base64_lines(whole))
            if lines and lines[-1][-1][1] == len(whole):
                pieces = lines[-1]
                data = "".join([whole[first:last] for first, last in pieces])[:-1].encode()
                ends = list(accumulate(last - first for first, last in pieces))
                at = self._base64.first_in(data)
                if at < len(data):
                    yield place_in(pieces, ends, at)
                return

    def _in_dumps(self, text: str) -> Iterator[int]:
        """Lines of which the last is not whole."""
        begin = text.rfind("\n") + 1
        if not text.startswith(_OF_DUMPS, begin) and begin < len(text):
            return
        here = begun_line(text, begin)
        if here is None:
            return
        yield here
        for lines, data in at_the_end(text[: max(0, begin - 1)]):
            at = self._data.first_in(b"".join(data))
            ends = list(accumulate(map(len, data)))
            if at < ends[-1]:
                yield lines[bisect_right(ends, at)].start


class _Values:
    """Values, by how they begin."""

    def __init__(self, values: Collection[bytes]) -> None:
        self._sorted = sorted(values)
        self._heads = {value[0] for value in values}
        self._longest = max(map(len, values), default=0)

    def first_in(self, data: bytes) -> int:
        """From where on data are the beginning of one that is longer; else where they end."""
        for at in range(max(0, len(data) - self._longest + 1), len(data)):
            if data[at] in self._heads and self._is_begun(data[at:]):
                return at
        return len(data)

    def _is_begun(self, data: bytes) -> bool:
        # What begins with it comes right behind it.
        following = bisect_right(self._sorted, data)
        return following < len(self._sorted) and self._sorted[following].startswith(data)


def _begins(text: str, several: list[str]) -> bool:
    return any(len(each) > len(text) and each.startswith(text) for each in several)
