"""Finds the lines that a model means, even if its white space differs from the file's.

It tries an exact match, then ignores trailing white space, then allows a uniform indent shift.
The first that finds anything wins.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain

from msgspec import Struct

from agent_service.tools.patching.forms import Hunk


class Unclear(Exception):
    """The text is missing or ambiguous; the message says how to do better."""


class NotThere(Unclear):
    """The text is not there."""


class IndentShift(Struct, frozen=True):
    """How much more or less the file's lines are indented than the given ones."""

    more: str = ""
    less: str = ""

    def apply(self, line: str) -> str | None:
        if not line.strip():
            return line
        if not line.startswith(self.less):
            return None
        return self.more + line.removeprefix(self.less)


class LineRange(Struct, frozen=True):
    """Where lines stand."""

    first: int
    shift: IndentShift = IndentShift()


def places(lines: Sequence[str], wanted: Sequence[str], start: int = 0) -> list[LineRange]:
    """Where the wanted lines match from line `start` on, by the strictest match that finds any.

    Places may overlap. Lines that are all blank match only exactly.
    """
    readings = [_same, _same_but_ends, _same_but_indent]
    if not any(line.strip() for line in wanted):
        readings = [_same]
    for reading in readings:
        if found := list(_places(lines, wanted, start, reading)):
            return found
    return []


def replace(text: str, old: str, new: str, every: bool) -> str:
    """Replace `old`, which must be unique unless `every`; raises NotThere and Unclear.

    If the whole file has Windows line ends, `old` and `new` may omit them.
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
        raise NotThere("does not occur")
    if len(found) > 1 and not every:
        raise _several(len(found))
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    pieces: list[str] = []
    end = 0
    for place in _apart(found, len(wanted)):
        pieces += text[end : starts[place.first]], shifted(new, place.shift)
        end = starts[place.first + len(wanted)]
        if end > len(text):
            # The last line has no line end, and gets none.
            pieces[-1] = pieces[-1].removesuffix("\n") if old.endswith("\n") else pieces[-1]
        elif not old.endswith("\n"):
            end -= 1
    return "".join([*pieces, text[end:]])


def shifted(text: str, shift: IndentShift) -> str:
    """The text with its indentation shifted; NotThere if it cannot be."""
    lines = [shift.apply(line) for line in text.split("\n")]
    if None in lines:
        raise NotThere("does not occur with this indentation")
    return "\n".join(line for line in lines if line is not None)


def _apart(found: list[LineRange], length: int) -> list[LineRange]:
    apart: list[LineRange] = []
    for place in found:
        if not apart or place.first >= apart[-1].first + length:
            apart.append(place)
    return apart


def _several(count: int) -> Unclear:
    return Unclear(f"occurs {count} times")


_Reading = Callable[[Sequence[str], Sequence[str]], IndentShift | None]


def _places(
    lines: Sequence[str], wanted: Sequence[str], start: int, reading: _Reading
) -> Iterator[LineRange]:
    # The longest line is the most selective, so compare it first.
    key = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    text = wanted[key].strip()
    for first in range(start, len(lines) - len(wanted) + 1):
        if text not in lines[first + key]:
            continue
        shift = reading(lines[first : first + len(wanted)], wanted)
        if shift is not None:
            yield LineRange(first, shift)


def _same(lines: Sequence[str], wanted: Sequence[str]) -> IndentShift | None:
    return IndentShift() if list(lines) == list(wanted) else None


def _same_but_ends(lines: Sequence[str], wanted: Sequence[str]) -> IndentShift | None:
    pairs = zip(lines, wanted, strict=True)
    return IndentShift() if all(a.rstrip() == b.rstrip() for a, b in pairs) else None


def _same_but_indent(lines: Sequence[str], wanted: Sequence[str]) -> IndentShift | None:
    shifts: set[IndentShift] = set()
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


def _shift(has: str, given: str) -> IndentShift | None:
    if has.endswith(given):
        return IndentShift(more=has.removesuffix(given))
    if given.endswith(has):
        return IndentShift(less=given.removesuffix(has))
    return None


# The hunks of a patch


MAX_SHOWN_LINES = 20
MAX_SHOWN_CHARS = 160
MAX_TRIED_LINES = 50


class DoesNotFit(Exception):
    """A hunk has no place in the text, or several; says which hunk and what was searched for."""


class _Edit(Struct, frozen=True):
    hunk: Hunk
    first: int
    end: int
    lines: list[str]


def applied(text: str, hunks: Sequence[Hunk]) -> str:
    """Apply all hunks; DoesNotFit if one has no unique place.

    Takes up to seconds: do not call it on the event loop.
    """
    if "\r\n" in text and text.count("\n") == text.count("\r\n"):
        return applied(text.replace("\r\n", "\n"), hunks).replace("\n", "\r\n")
    lines = text.removesuffix("\n").split("\n") if text else []
    edits: list[_Edit] = []
    for number, hunk in enumerate(hunks, 1):
        try:
            edits.append(_edit(lines, hunk, edits))
        except DoesNotFit as error:
            raise DoesNotFit(f"hunk {number} of {len(hunks)} {error}") from None
    after: list[str] = []
    end = 0
    for edit in sorted(edits, key=lambda edit: edit.first):
        after += lines[end : edit.first]
        after += edit.lines
        end = edit.end
    after += lines[end:]
    ends = not text or text.endswith("\n")
    for edit in edits:
        if edit.end == len(lines) and edit.hunk.bare:
            ends = "+" not in edit.hunk.bare
    return "\n".join(after) + ("\n" if ends and after else "")


def _edit(lines: Sequence[str], hunk: Hunk, before: Sequence[_Edit]) -> _Edit:
    place = _place(lines, hunk, before)
    end = place.first + len(hunk.old)
    return _Edit(hunk, place.first, end, _lines(lines[place.first : end], hunk, place.shift))


def _lines(there: Sequence[str], hunk: Hunk, shift: IndentShift) -> list[str]:
    kept = iter(there)
    after: list[str] = []
    for sign, text in hunk.lines:
        line = shift.apply(text) if sign == "+" else next(kept)
        if line is None:
            raise DoesNotFit(f"does not fit with this indentation:\n{_render(hunk.old)}")
        if sign != "-":
            after.append(line)
    return after


def _place(lines: Sequence[str], hunk: Hunk, before: Sequence[_Edit]) -> LineRange:
    start = before[-1].end if before else 0
    anchor = -1
    for text in hunk.anchors:
        anchor = _anchored(lines, text, max(start, anchor + 1))
    if not hunk.old:
        return _insertion(lines, hunk, before, anchor)
    # The anchor line may itself be the hunk's first line.
    start = max(start, anchor)
    found = _free(places(lines, hunk.old, start), hunk, before)
    if hunk.at_end:
        found = [place for place in found if place.first + len(hunk.old) == len(lines)] or found
    if not found and anchor < 0:
        found = _free(places(lines, hunk.old), hunk, before)
    if not found:
        raise DoesNotFit(f"does not fit: {_missing(lines, hunk.old)}")
    if hunk.line:
        stated = hunk.line - 1 + _drift(before)
        return min(found, key=lambda place: abs(place.first - stated))
    if len(found) > 1 and anchor < 0:
        raise DoesNotFit(
            f"fits {len(found)} places. Include more of the lines around it, or an `@@` line "
            f"that names a line above it:\n{_render(hunk.old)}"
        )
    return found[0]


def _insertion(lines: Sequence[str], hunk: Hunk, before: Sequence[_Edit], anchor: int) -> LineRange:
    if anchor >= 0:
        return LineRange(anchor + 1)
    stated = hunk.line - 1 + _drift(before) if hunk.line else len(lines)
    return LineRange(max(0, min(stated, len(lines))))


def _drift(before: Sequence[_Edit]) -> int:
    """How much lower than stated the previous hunk was."""
    if not before or not before[-1].hunk.line:
        return 0
    return before[-1].first - (before[-1].hunk.line - 1)


def _free(found: Sequence[LineRange], hunk: Hunk, before: Sequence[_Edit]) -> list[LineRange]:
    size = len(hunk.old)
    return [
        place
        for place in found
        if all(place.first >= edit.end or place.first + size <= edit.first for edit in before)
    ]


def _anchored(lines: Sequence[str], text: str, start: int) -> int:
    order = [*range(start, len(lines)), *range(min(start, len(lines)))]
    same = (index for index in order if lines[index].strip() == text)
    close = (index for index in order if text in lines[index])
    for index in chain(same, close):
        return index
    raise DoesNotFit(f"does not fit: there is no line `{text[:MAX_SHOWN_CHARS]}`")


def _missing(lines: Sequence[str], old: Sequence[str]) -> str:
    """What was searched for, and how much of it is there."""
    for count in range(min(len(old) - 1, MAX_TRIED_LINES), 0, -1):
        if any(line.strip() for line in old[:count]) and (found := places(lines, old[:count])):
            differs = found[0].first + count
            stands = lines[differs][:MAX_SHOWN_CHARS] if differs < len(lines) else "[the end]"
            return (
                f"the first {count} of its {len(old)} lines are at line {found[0].first + 1}, but "
                f"line {differs + 1} is\n{stands}\nand not\n{old[count][:MAX_SHOWN_CHARS]}"
            )
    return f"the file does not have these lines:\n{_render(old)}"


def _render(lines: Sequence[str]) -> str:
    shown = [line[:MAX_SHOWN_CHARS] for line in lines[:MAX_SHOWN_LINES]]
    more = len(lines) - len(shown)
    return "\n".join([*shown, f"[{more} more lines]"] if more else shown)
