"""Puts the hunks of a patch into a text, where its lines stand and not where the patch says."""

from collections.abc import Sequence
from itertools import chain

from msgspec import Struct

from agent_service.patching.changes import Hunk
from agent_service.patching.matching import Place, Shift, places

MAX_SHOWN_LINES = 20
MAX_SHOWN_CHARS = 160
MAX_TRIED_LINES = 50


class DoesNotFit(Exception):
    """A hunk has no place in the text, or several; says which hunk, and what was looked for."""


class _Edit(Struct, frozen=True):
    """Lines of the file that others take the place of."""

    hunk: Hunk
    first: int
    end: int
    lines: list[str]


def applied(text: str, hunks: Sequence[Hunk]) -> str:
    """The text with all hunks; DoesNotFit where one has no place of its own.

    Takes up to seconds: not for the event loop.
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


def _lines(there: Sequence[str], hunk: Hunk, shift: Shift) -> list[str]:
    """What then stands there: what is kept as it is in the file, what is new indented as that."""
    kept = iter(there)
    after: list[str] = []
    for sign, text in hunk.lines:
        line = shift.apply(text) if sign == "+" else next(kept)
        if line is None:
            raise DoesNotFit(f"does not fit with such indentation:\n{_shown(hunk.old)}")
        if sign != "-":
            after.append(line)
    return after


def _place(lines: Sequence[str], hunk: Hunk, before: Sequence[_Edit]) -> Place:
    start = before[-1].end if before else 0
    anchor = -1
    for text in hunk.anchors:
        anchor = _anchored(lines, text, max(start, anchor + 1))
    if not hunk.old:
        return _insertion(lines, hunk, before, anchor)
    # The line that a hunk is said to stand below may be its own first one.
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
            f"fits {len(found)} places, give more of the lines around it or an `@@` line that "
            f"stands above it:\n{_shown(hunk.old)}"
        )
    return found[0]


def _insertion(lines: Sequence[str], hunk: Hunk, before: Sequence[_Edit], anchor: int) -> Place:
    if anchor >= 0:
        return Place(anchor + 1)
    stated = hunk.line - 1 + _drift(before) if hunk.line else len(lines)
    return Place(max(0, min(stated, len(lines))))


def _drift(before: Sequence[_Edit]) -> int:
    """By how much the hunk before stood lower than it was said to."""
    if not before or not before[-1].hunk.line:
        return 0
    return before[-1].first - (before[-1].hunk.line - 1)


def _free(found: Sequence[Place], hunk: Hunk, before: Sequence[_Edit]) -> list[Place]:
    """The places that no other hunk has."""
    size = len(hunk.old)
    return [
        place
        for place in found
        if all(place.first >= edit.end or place.first + size <= edit.first for edit in before)
    ]


def _anchored(lines: Sequence[str], text: str, start: int) -> int:
    """Where a line stands that a hunk names, from a line on or else anywhere."""
    order = [*range(start, len(lines)), *range(min(start, len(lines)))]
    same = (index for index in order if lines[index].strip() == text)
    close = (index for index in order if text in lines[index])
    for index in chain(same, close):
        return index
    raise DoesNotFit(f"does not fit: there is no line `{text[:MAX_SHOWN_CHARS]}`")


def _missing(lines: Sequence[str], old: Sequence[str]) -> str:
    """What was looked for, and how far it is there."""
    for count in range(min(len(old) - 1, MAX_TRIED_LINES), 0, -1):
        if any(line.strip() for line in old[:count]) and (found := places(lines, old[:count])):
            differs = found[0].first + count
            stands = lines[differs][:MAX_SHOWN_CHARS] if differs < len(lines) else "[the end]"
            return (
                f"its first {count} of {len(old)} lines stand at line {found[0].first + 1}, but "
                f"line {differs + 1} is\n{stands}\nand not\n{old[count][:MAX_SHOWN_CHARS]}"
            )
    return f"these lines do not stand there:\n{_shown(old)}"


def _shown(lines: Sequence[str]) -> str:
    shown = [line[:MAX_SHOWN_CHARS] for line in lines[:MAX_SHOWN_LINES]]
    more = len(lines) - len(shown)
    return "\n".join([*shown, f"[{more} more lines]"] if more else shown)
