"""The scanner's findings: family, place and severity."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from agent_service.security.commands.families import FAMILIES

MAX_FINDINGS = 200
MAX_EXCERPT_CHARS = 160


class Verdict(StrEnum):
    """What happens to a skill."""

    SAFE = "safe"
    CAUTION = "caution"
    """A person must review the findings first."""
    DANGEROUS = "dangerous"
    """It is never installed."""


class Finding(Struct, frozen=True):
    """A finding at one place of a skill."""

    verdict: Verdict
    family: str
    path: str
    line: int
    """From 1; 0 means the whole file."""
    text: str = ""

    @property
    def about(self) -> str:
        if self.family in FAMILIES:
            return FAMILIES[self.family].about
        return _ABOUT.get(self.family, "")


class Review(Struct, frozen=True):
    """All findings of a skill, worst first."""

    findings: Sequence[Finding] = ()

    @property
    def verdict(self) -> Verdict:
        return self.findings[0].verdict if self.findings else Verdict.SAFE

    def with_findings(self, more: Iterable[Finding]) -> "Review":
        """Add findings that come from elsewhere than the texts."""
        return reviewed((*self.findings, *more))


def reviewed(findings: Iterable[Finding]) -> Review:
    """Return a review with each finding once, worst first."""
    once = dict.fromkeys(findings)
    ordered = sorted(once, key=lambda each: (_BADNESS[each.verdict], each.path, each.line))
    return Review(tuple(ordered[:MAX_FINDINGS]))


def excerpt(line: str) -> str:
    """Return a line in displayable form."""
    shown = "".join(
        each if each.isprintable() or each == "\t" else f"\\u{ord(each):04x}"
        for each in line.strip()[: MAX_EXCERPT_CHARS * 2]
    )
    return shown if len(shown) <= MAX_EXCERPT_CHARS else f"{shown[: MAX_EXCERPT_CHARS - 1]}…"


_BADNESS: Mapping[Verdict, int] = {Verdict.DANGEROUS: 0, Verdict.CAUTION: 1, Verdict.SAFE: 2}
_ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "override": "tells the agent to forget its instructions",
        "hide-from-user": "tells the agent to keep something from you",
        "prompt-leak": "asks for the agent's own instructions",
        "exfiltration": "leads secrets out",
        "hidden-markup": "hides orders in markup",
        "encoded": "hides orders in encoded text",
        "invisible-text": "hides characters within words",
        "turned-text": "turns the direction of text, so that it reads otherwise than it runs",
        "mixed-letters": "mixes letters of alphabets that look alike",
        "own-key": "sends a key of the environment with a request",
        "drop-place": "names a place where things are dropped for somebody to fetch",
        "dynamic-code": "makes the code that it runs while it runs",
        "opaque-data": "has much encoded data, which nobody can read",
        "program": "is a compiled program",
        "archive": "is an archive, which was not looked into",
        "binary": "is no text, and was not looked into",
        "unreadable": "cannot be read as the program that it is",
        "left-out": "cannot be kept in the library and is left out",
        "same-version": "has other content than before under the same version",
    }
)
