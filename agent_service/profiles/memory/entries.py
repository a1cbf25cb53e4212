"""The entries of a memory file, and their limits."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from agent_service.records.errors import ModelNotConfigured
from services.errors import FailedPrecondition

USUAL_WINDOW = 128_000
"""The context window, in tokens, for which the limits apply unscaled."""
MOST_TIMES = 4


class Target(StrEnum):
    """One of a profile's two memories."""

    MEMORY = "memory"
    """What the agent has learned from its work."""
    USER = "user"


class Limits(Struct, frozen=True):
    """The maximum number of characters of each memory."""

    usual: Mapping[Target, int]
    window: Callable[[], Awaitable[int]] | None = None
    """Returns the context window that the limits scale with; None if they are fixed."""

    async def now(self) -> Mapping[Target, int]:
        if self.window is None:
            return self.usual
        try:
            times = min(max(await self.window() / USUAL_WINDOW, 1), MOST_TIMES)
        except ModelNotConfigured:
            times = 1
        return {target: int(limit * times) for target, limit in self.usual.items()}


DELIMITER = "\n§\n"
_BETWEEN = re.compile(r"^§[ \t]*$", re.MULTILINE)
SHOWN_CHARS = 120
"""The number of characters of an entry that messages quote."""


class MemoryRefused(FailedPrecondition):
    """A memory cannot be changed like this; the message says why, and shows the memory."""


class Action(StrEnum):
    """Kind of operation."""

    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


class Operation(Struct, frozen=True):
    """A change of one entry."""

    action: Action
    content: str = ""
    old_text: str = ""


def parse(text: str) -> list[str]:
    """Return the trimmed entries of a text without duplicates."""
    entries = (entry.strip() for entry in _BETWEEN.split(text.lstrip("\ufeff")))
    return list(dict.fromkeys(filter(None, entries)))


def render(entries: Sequence[str]) -> str:
    """Return entries as the text of the file."""
    return DELIMITER.join(entries)


def is_drifted(text: str) -> bool:
    """Return whether a person has edited the text in a way that rewriting it would lose."""
    return render(parse(text)) != text.rstrip("\n")


def apply(text: str, operations: Sequence[Operation], limit: int) -> str:
    """Apply all operations; MemoryRefused, with none applied, if one cannot be."""
    if not operations:
        raise MemoryRefused("There is nothing to do: give an action, or operations.")
    entries = parse(text)
    for number, operation in enumerate(operations, 1):
        try:
            _apply(entries, operation)
        except MemoryRefused as error:
            if len(operations) == 1:
                raise
            # The memory that the error shows includes the operations before the failed one.
            told = f"None of the operations was done, as number {number} cannot be. {error}"
            raise MemoryRefused(told) from error
    changed = render(entries)
    # Removing text is always allowed, even if a person wrote more than the limit.
    if len(changed) > max(limit, len(text.rstrip("\n")) - 1):
        raise MemoryRefused(
            f"That would be {len(changed)} of {limit} characters. Merge or remove entries, then "
            f"try again, in one call if you like. There are:\n{_listed(parse(text))}"
        )
    return changed


def _apply(entries: list[str], operation: Operation) -> None:
    content = operation.content.strip()
    if operation.action is not Action.REMOVE:
        _check(content)
    if operation.action is Action.ADD:
        if content not in entries:
            entries.append(content)
        return
    position = _position(entries, operation.old_text.strip())
    if operation.action is Action.REMOVE:
        content = ""
    elif content in entries[:position] + entries[position + 1 :]:
        content = ""  # which exists already
    entries[position : position + 1] = [content] if content else []


def _check(content: str) -> None:
    if not content or "\0" in content:
        raise MemoryRefused("An entry needs content, which is text.")
    if any(line.strip() == "§" for line in content.splitlines()):
        raise MemoryRefused("A line that is only § separates entries; add them one by one.")


def _position(entries: Sequence[str], old_text: str) -> int:
    if not old_text:
        raise MemoryRefused("old_text must be a part of the entry that is meant.")
    found = [n for n, entry in enumerate(entries) if old_text in entry]
    if not found:
        raise MemoryRefused(f"No entry has {old_text!r}. There are:\n{_listed(entries)}")
    if len(found) > 1:
        matching = _listed([entries[n] for n in found])
        raise MemoryRefused(f"Several entries have {old_text!r}; give more of one:\n{matching}")
    return found[0]


def _listed(entries: Sequence[str]) -> str:
    shown = (" ".join(entry.split()) for entry in entries)
    cut = (f"{e[:SHOWN_CHARS]}…" if len(e) > SHOWN_CHARS else e for e in shown)
    return "\n".join(f"- {entry}" for entry in cut) or "(none)"
