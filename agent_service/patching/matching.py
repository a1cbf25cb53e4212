"""Finds the lines that a model means, also where its white space differs from the file's.

What is tried, the strictest first: the lines as they are, then without white space at their ends,
then with all of them indented more or less by the same. The first that finds anything counts, so
that a looser reading never competes with a stricter one.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct


class Unclear(Exception):
    """The text is not there, or it could mean several places; says how to do better."""


class NotThere(Unclear):
    """The text is not there."""


class Shift(Struct, frozen=True):
    """By what the file's lines are indented more, or less, than those that were given."""

    more: str = ""
    less: str = ""

    def apply(self, line: str) -> str | None:
        """The line, indented as the file's; None where it is not indented so far."""
        if not line.strip():
            return line
        if not line.startswith(self.less):
            return None
        return self.more + line.removeprefix(self.less)


class Place(Struct, frozen=True):
    """Where lines stand."""

    first: int
    """Index of the first line."""
    shift: Shift = Shift()


def places(lines: Sequence[str], wanted: Sequence[str], start: int = 0) -> list[Place]:
    """Where the wanted lines stand from line `start` on, by the strictest reading that finds any.

    Places may overlap. Lines that are all blank are found only as they are.
    """
    readings = [_same, _same_but_ends, _same_but_indent]
    if not any(line.strip() for line in wanted):
        readings = [_same]
    for reading in readings:
        if found := list(_places(lines, wanted, start, reading)):
            return found
    return []


def replace(text: str, old: str, new: str, every: bool) -> str:
    """The text with `new` for `old`, which has to stand there once where not `every` is meant.

    Raises NotThere and Unclear. Where the whole file has Windows line ends, both may be given
    without.
    """
    if "\r\n" in text and "\r" not in old and text.count("\n") == text.count("\r\n"):
        plain = replace(text.replace("\r\n", "\n"), old, new.replace("\r\n", "\n"), every)
        return plain.replace("\n", "\r\n")
    first = text.find(old)
    if first < 0:
        return _replace_lines(text, old, new, every)
    if not every and text.find(old, first + 1) >= 0:
        raise _several(max(2, text.count(old)))
    return text.replace(old, new)


def _replace_lines(text: str, old: str, new: str, every: bool) -> str:
    lines = text.split("\n")
    wanted = old.removesuffix("\n").split("\n")
    found = places(lines, wanted)
    if not found:
        raise NotThere("does not stand")
    if len(found) > 1 and not every:
        raise _several(len(found))
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    pieces: list[str] = []
    end = 0
    for place in _apart(found, len(wanted)):
        pieces += text[end : starts[place.first]], shifted(new, place.shift)
        end = starts[place.first + len(wanted)]
        if end > len(text):
            # The file's last line has no end, and gets none.
            pieces[-1] = pieces[-1].removesuffix("\n") if old.endswith("\n") else pieces[-1]
        elif not old.endswith("\n"):
            end -= 1
    return "".join([*pieces, text[end:]])


def shifted(text: str, shift: Shift) -> str:
    """The text, indented as the place needs it; NotThere where it cannot be."""
    lines = [shift.apply(line) for line in text.split("\n")]
    if None in lines:
        raise NotThere("does not stand with such indentation")
    return "\n".join(line for line in lines if line is not None)


def _apart(found: list[Place], length: int) -> list[Place]:
    apart: list[Place] = []
    for place in found:
        if not apart or place.first >= apart[-1].first + length:
            apart.append(place)
    return apart


def _several(count: int) -> Unclear:
    return Unclear(f"stands there {count} times")


_Reading = Callable[[Sequence[str], Sequence[str]], Shift | None]


def _places(
    lines: Sequence[str], wanted: Sequence[str], start: int, reading: _Reading
) -> Iterator[Place]:
    # Most windows fail at a line that is compared cheaply.
    key = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    said = wanted[key].strip()
    for first in range(start, len(lines) - len(wanted) + 1):
        if said not in lines[first + key]:
            continue
        shift = reading(lines[first : first + len(wanted)], wanted)
        if shift is not None:
            yield Place(first, shift)


def _same(lines: Sequence[str], wanted: Sequence[str]) -> Shift | None:
    return Shift() if list(lines) == list(wanted) else None


def _same_but_ends(lines: Sequence[str], wanted: Sequence[str]) -> Shift | None:
    pairs = zip(lines, wanted, strict=True)
    return Shift() if all(a.rstrip() == b.rstrip() for a, b in pairs) else None


def _same_but_indent(lines: Sequence[str], wanted: Sequence[str]) -> Shift | None:
    shifts: set[Shift] = set()
    for line, want in zip(lines, wanted, strict=True):
        if line.strip() != want.strip():
            return None
        if want.strip():
            shift = _shift(_indent(line), _indent(want))
            if shift is None:
                return None
            shifts.add(shift)
    return shifts.pop() if len(shifts) == 1 else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _shift(has: str, given: str) -> Shift | None:
    if has.endswith(given):
        return Shift(more=has.removesuffix(given))
    if given.endswith(has):
        return Shift(less=given.removesuffix(has))
    return None
