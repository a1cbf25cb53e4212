"""Finds prompt injection in text and removes exactly the offending lines."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache

from msgspec import Struct

from agent_service.security.plain_text import Plain, encoded, invisible_at, is_prose, read
from agent_service.security.threat_patterns import FAMILIES, STRICT
from agent_service.security.threat_signs import SIGNS

INVISIBLE = "invisible-text"
ENCODED = "encoded"
_LONG_LINE = 300
_MARGIN = 100
"""Characters replaced on each side of a match if no line or sentence ends there."""
_ENDS = re.compile(r"(?<=[.!?])\s+|(?=<!--)|(?<=-->)")


class Threat(Struct, frozen=True):
    """A match of a family, from `begin` to `end`."""

    family: str
    begin: int
    end: int


class Screened(Struct, frozen=True):
    """A text as the model sees it."""

    text: str = ""
    blocked: tuple[str, ...] = ()
    """Notices for the user about what was removed."""


class Source(StrEnum):
    """Where a threat was found."""

    TOOL = "tool"
    QUOTE = "quote"
    """In a quoted message."""
    CONTEXT_FILE = "context_file"
    SKILL = "skill"
    MEMORY = "memory"
    SCRIPT = "script"
    """In the output of a job's script."""
    COMMAND = "command"
    """A refused command or file access."""


Blocked = Callable[[Source, Iterable[str]], None]
"""Counts blocked threats by family; called from any thread."""


class ThreatScanner:
    """Finds threats."""

    def __init__(self, blocked: Blocked = lambda source, families: None) -> None:
        self.blocked = blocked

    def scan(self, text: str, *, strict: bool = False) -> tuple[Threat, ...]:
        """The threats in order; `strict` is for text that is kept, such as memory."""
        plain = read(text)
        lines = _Lines(text)
        found = {Threat(INVISIBLE, *lines.around(at, at + 1)) for at in _hidden(text)}
        for family, begin, end in self._matches(plain, strict=strict):
            found.add(Threat(family, *lines.around(begin, end)))
        for each in encoded(text):
            is_hidden = each.is_hidden and is_prose(each.plain)
            if is_hidden or any(True for _ in self._matches(read(each.plain), strict=strict)):
                found.add(Threat(ENCODED, *lines.around(each.begin, each.end)))
        return tuple(sorted(found, key=lambda threat: (threat.begin, threat.end, threat.family)))

    def _matches(self, plain: Plain, *, strict: bool) -> Iterator[tuple[str, int, int]]:
        for family, pattern in _patterns(strict=strict):
            for match in pattern.finditer(plain.text):
                last = max(match.end() - 1, 0)
                yield family, plain.place(match.start()), plain.place(last) + 1

    def clean(self, text: str, source: Source = Source.TOOL) -> tuple[str, tuple[Threat, ...]]:
        """The text with each offending line replaced by `[BLOCKED: family]`, and the threats."""
        threats = self.scan(text)
        if threats:
            self.blocked(source, {threat.family for threat in threats})
        return block(text, threats), threats


def block(text: str, threats: Sequence[Threat]) -> str:
    """The text with the threats, which are in order, replaced by `[BLOCKED: family]`."""
    parts: list[str] = []
    at = 0
    for begin, end, families in _merged(threats):
        parts += [text[at:begin], f"[BLOCKED: {', '.join(families)}]"]
        at = end
    return "".join([*parts, text[at:]])


@cache
def _patterns(*, strict: bool) -> Sequence[tuple[str, re.Pattern[str]]]:
    """Return the patterns by family, which are compiled for the first scan."""
    return [
        (family, re.compile(text, re.MULTILINE))
        for group in (FAMILIES, SIGNS, STRICT if strict else {})
        for family, texts in group.items()
        for text in texts
    ]


def _hidden(text: str) -> list[int]:
    return [
        at
        for at in invisible_at(text)
        if text[at] > "\U000dffff"
        or text[at] in "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"
        or f"{text[at - 1 : at]}{text[at + 1 : at + 2]}".isalpha()
    ]


class _Lines:
    """The lines of a text; very long lines are split into sentences, or else into excerpts."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._cuts: dict[tuple[int, int], list[int]] = {}

    def around(self, begin: int, end: int) -> tuple[int, int]:
        first = self._text.rfind("\n", 0, begin) + 1
        last = self._text.find("\n", end)
        last = len(self._text) if last < 0 else last
        if last - first <= _LONG_LINE:
            return first, last
        if (first, last) not in self._cuts:
            ends = _ENDS.finditer(self._text, first, last)
            self._cuts[first, last] = [first, *(match.end() for match in ends), last]
        cuts = self._cuts[first, last]
        first, last = cuts[bisect_right(cuts, begin) - 1], cuts[bisect_left(cuts, end)]
        if last - first <= _LONG_LINE:
            return first, last
        return max(first, begin - _MARGIN), min(last, end + _MARGIN)


def _merged(threats: Sequence[Threat]) -> list[tuple[int, int, list[str]]]:
    merged: list[tuple[int, int, list[str]]] = []
    for threat in threats:
        if merged and threat.begin < merged[-1][1]:
            begin, end, families = merged[-1]
            named = families if threat.family in families else [*families, threat.family]
            merged[-1] = (begin, max(end, threat.end), named)
        else:
            merged.append((threat.begin, threat.end, [threat.family]))
    return merged
