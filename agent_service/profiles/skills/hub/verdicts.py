"""What the scanner says of a skill: how bad it is, where, and of which family."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from agent_service.security.commands.families import FAMILIES

MAX_FINDINGS = 200
MAX_EXCERPT_CHARS = 160


class Verdict(StrEnum):
    """What is done with a skill."""

    SAFE = "safe"
    CAUTION = "caution"
    """A person looks at the findings first."""
    DANGEROUS = "dangerous"
    """It is not installed, whoever asks."""


class Finding(Struct, frozen=True):
    """One place of a skill."""

    verdict: Verdict
    family: str
    path: str
    line: int
    """From 1 on; 0 is the file as a whole."""
    text: str = ""
    """The line as it can be shown: one line, nothing in it hidden."""

    @property
    def about(self) -> str:
        """What the family is."""
        if self.family in FAMILIES:
            return FAMILIES[self.family].about
        return _ABOUT.get(self.family, "")


class Review(Struct, frozen=True):
    """What was found in all of a skill, the worst first."""

    findings: Sequence[Finding] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of them."""
        return self.findings[0].verdict if self.findings else Verdict.SAFE

    def with_findings(self, more: Iterable[Finding]) -> "Review":
        """The same with what was found beside the texts."""
        return reviewed((*self.findings, *more))


def reviewed(findings: Iterable[Finding]) -> Review:
    """The findings, each once and the worst first."""
    once = dict.fromkeys(findings)
    ordered = sorted(once, key=lambda each: (_BADNESS[each.verdict], each.path, each.line))
    return Review(tuple(ordered[:MAX_FINDINGS]))


def excerpt(line: str) -> str:
    """A line as it can be shown to a person."""
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
