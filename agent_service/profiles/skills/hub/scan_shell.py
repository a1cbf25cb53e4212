"""Judges the shell text of a skill: its scripts, and commands that its documents show."""

import re
from collections.abc import Iterable, Iterator

from agent_service.profiles.skills.hub.verdicts import Finding, Verdict, excerpt
from agent_service.security.commands.classifier import LONGEST, CommandClassifier
from agent_service.security.commands.families import FAMILIES, CommandClass

MAX_LINES = 2_000
_DANGEROUS = frozenset({"reverse-shell", "bind-shell", "decode-to-shell", "hidden-command"})
_EVERYDAY = frozenset({"recursive-delete", "workspace-delete", "overwrite"})
"""Ordinary in build scripts; the person who runs one is asked if it matters."""
_LEADS_OUT = frozenset({"credential-files", "upload"})
WORST = frozenset(
    {*_DANGEROUS, "remote-to-shell", "credential-files"}
    | {name for name, family in FAMILIES.items() if family.hardline}
)
"""Reported even in a single line whose context is not understood."""
_PROMPT = re.compile(r"^\s*(?:\$|#|>|%|[\w.-]+@[\w.-]+[:~\w/ .-]*[$#])\s+(?=\S)")


def of_script(
    classifier: CommandClassifier, path: str, text: str, *, first: int = 1, is_whole: bool = True
) -> Iterator[Finding]:
    """Yield findings of a script; `first` is the line where it begins in its file."""
    for begin, part in _parts(text, first):
        verdict = classifier.classify(part)
        if is_whole and verdict.kind is CommandClass.UNPARSEABLE:
            yield Finding(Verdict.CAUTION, "unreadable", path, begin)
        if not verdict.families:
            continue
        if set(verdict.families) >= _LEADS_OUT:
            yield from _located(classifier, path, part, begin, _LEADS_OUT)
        for family in _worth_telling(verdict.families):
            line, shown = _line_of(classifier, part, begin, frozenset({family}))
            yield Finding(severity(family), family, path, line, shown)


def of_mention(
    classifier: CommandClassifier, path: str, line: int, command: str
) -> Iterator[Finding]:
    """Yield findings of a command in a sentence, which may well warn against it."""
    for family in _worth_telling(classifier.classify(command.rstrip(" .,;:!?)")).families):
        yield Finding(Verdict.CAUTION, family, path, line, excerpt(command))


def severity(family: str) -> Verdict:
    """Return the severity of a command family in a skill."""
    is_dangerous = FAMILIES[family].hardline or family in _DANGEROUS
    return Verdict.DANGEROUS if is_dangerous else Verdict.CAUTION


def without_prompts(text: str) -> str:
    """Return the commands of a shell transcript, each on its line."""
    lines = text.split("\n")
    if not any(_PROMPT.match(line) for line in lines):
        return text
    return "\n".join(_PROMPT.sub("", line) if _PROMPT.match(line) else "" for line in lines)


def _worth_telling(families: Iterable[str]) -> list[str]:
    return [family for family in families if family not in _EVERYDAY]


def _located(
    classifier: CommandClassifier, path: str, text: str, begin: int, families: frozenset[str]
) -> Iterator[Finding]:
    """Yield a finding if one statement both reads secrets and sends data."""
    line, shown = _line_of(classifier, text, begin, families)
    if shown:
        yield Finding(Verdict.DANGEROUS, "exfiltration", path, line, shown)


def _line_of(
    classifier: CommandClassifier, text: str, begin: int, families: frozenset[str]
) -> tuple[int, str]:
    """Return the first line that shows the families by itself; else the beginning, without text."""
    for number, line in _logical(text):
        if families <= set(classifier.classify(line).families):
            return begin + number, excerpt(line)
    return begin, ""


def _logical(text: str) -> Iterator[tuple[int, str]]:
    held, at = "", 0
    for number, line in enumerate(text.split("\n")[:MAX_LINES]):
        at = at if held else number
        held += line
        if held.endswith("\\"):
            held = held[:-1]
            continue
        if held.strip() and not held.lstrip().startswith("#"):
            yield at, held
        held = ""
    if held.strip():
        yield at, held


def _parts(text: str, first: int) -> Iterator[tuple[int, str]]:
    begin, held, size = first, list[str](), 0
    for number, line in enumerate(text.split("\n"), first):
        if held and size + len(line) > LONGEST - 1024:
            yield begin, "\n".join(held)
            begin, held, size = number, [], 0
        held.append(line)
        size += len(line) + 1
    if held:
        yield begin, "\n".join(held)
