"""Patterns that are tried only on texts with one of their markers, which is far quicker."""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from re import _parser  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
from typing import Any

_parse: Any = _parser.parse  # pyright: ignore[reportUnknownVariableType]
_END: tuple[Any, Any] = (None, None)


class ThreatPattern:
    """A regular expression of a family, compiled when a text has one of its markers."""

    def __init__(self, family: str, text: str) -> None:
        self.family = family
        self.markers = _markers(_parse(text, re.MULTILINE))
        """One of these is in every match; empty if the expression names none."""
        self._text = text

    def find(self, text: str, present: frozenset[str]) -> Iterator[re.Match[str]]:
        """Yield the matches in a text that has these markers."""
        if self.markers and self.markers.isdisjoint(present):
            return iter(())
        return self._compiled.finditer(text)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._text, re.MULTILINE)


def _markers(parts: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """Return literals of a parsed expression, at least one of which is in every match."""
    found, run = list[frozenset[str]](), ""
    for kind, value in (*parts, _END):
        if str(kind) == "LITERAL":
            run += chr(value)
            continue
        found += [frozenset(filter(None, {run})), _markers_within(str(kind), value)]
        run = ""
    return max(found, key=lambda each: (min(map(len, each), default=0), -len(each)))


def _markers_within(kind: str, value: Any) -> frozenset[str]:
    match kind:
        case "SUBPATTERN":
            return _markers(value[3])
        case "MAX_REPEAT" | "MIN_REPEAT" if value[0] > 0:
            return _markers(value[2])
        case "BRANCH":
            each = [_markers(parts) for parts in value[1]]
            return frozenset[str]().union(*each) if all(each) else frozenset()
        case _:
            return frozenset()
