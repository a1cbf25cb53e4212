"""The entries of a memory file, and how long it may be."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from agent_service.records.errors import ModelNotConfigured
from services.errors import FailedPrecondition

USUAL_WINDOW = 128_000
"""Tokens of a model for which the limits hold as they are."""
MOST_TIMES = 4


class Target(StrEnum):
    """Which of a profile's two memories."""

    MEMORY = "memory"
    """What the agent has learned of its work."""
    USER = "user"
    """Who the user is."""


class Limits(Struct, frozen=True):
    """Characters that each memory may have."""

    usual: Mapping[Target, int]
    window: Callable[[], Awaitable[int]] | None = None
    """Tokens of the model that they grow with; None where they do not."""

    @property
    def grow(self) -> bool:
        """Whether they are others for another model."""
        return self.window is not None

    async def now(self) -> Mapping[Target, int]:
        """The limits for the model that is configured."""
        if self.window is None:
            return self.usual
        try:
            times = min(max(await self.window() / USUAL_WINDOW, 1), MOST_TIMES)
        except ModelNotConfigured:
            times = 1
        return {target: int(limit * times) for target, limit in self.usual.items()}


DELIMITER = "\n§\n"
SHOWN_CHARS = 120
"""As much of an entry is quoted in a message about it."""


class MemoryRefused(FailedPrecondition):
    """A memory cannot be changed like this; the message says why, and what it holds."""


class Action(StrEnum):
    """What an operation does."""

    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


class Operation(Struct, frozen=True):
    """One change of one entry."""

    action: Action
    content: str = ""
    """The new entry, for `add` and `replace`."""
    old_text: str = ""
    """A part of the entry that is meant, which no other one has."""


def parse(text: str) -> list[str]:
    """The entries of a text, trimmed, the first of those that are equal."""
    entries = (entry.strip() for entry in text.lstrip("\ufeff").split(DELIMITER))
    return list(dict.fromkeys(filter(None, entries)))


def render(entries: Sequence[str]) -> str:
    """The text of entries, as it stands in the file."""
    return DELIMITER.join(entries)


def is_drifted(text: str) -> bool:
    """Whether somebody has edited a text in a way that writing it anew would not keep."""
    return render(parse(text)) != text.rstrip("\n")


def apply(text: str, operations: Sequence[Operation], limit: int) -> str:
    """The text after all operations; MemoryRefused, with none done, where one cannot be."""
    if not operations:
        raise MemoryRefused("There is nothing to do: give an action, or operations.")
    entries = parse(text)
    for number, operation in enumerate(operations, 1):
        try:
            _apply(entries, operation)
        except MemoryRefused as error:
            if len(operations) == 1:
                raise
            # What stands there then is what those before it would have made of it.
            told = f"None of the operations was done, as number {number} cannot be. {error}"
            raise MemoryRefused(told) from error
    changed = render(entries)
    # What takes something away always helps, also where a person has written more than fits.
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
        content = ""  # which is there already
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
