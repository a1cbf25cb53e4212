"""Joins a call's shell input with what earlier calls left: a folder or half a line.

A single call does not show what several do together: one changes the folder and the next deletes
everything in it, or each types half of a line.
"""

import posixpath
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from agent_service.security.commands.families import Verdict
from agent_service.tools.base import SessionState
from agent_service.tools.texts import WORKSPACE

MOST_CHARS = 8_192
"""For an unfinished line."""
MOST_BEGUN = 64
"""Calls whose prior input is kept in case they are repeated."""
_FOLDER = "judged_folder"
_LINES = "judged_lines"
_BEGUN = "judged_begun"
KEPT = frozenset({_FOLDER, _LINES, _BEGUN})
"""Names of the session's values that only these calls change."""


class ShellInput(Struct, frozen=True):
    """What a call gives to a shell."""

    command: str
    place: str = ""
    """Distinguishes calls with the same command, such as by folder."""
    has_folder: bool = False
    """Whether it runs in `place`, or else in the folder where the last command ended."""
    process: str = ""
    """The process that gets it as input; it may not be a shell, so parsing may fail."""
    shown: str = ""
    """What a person sees; empty shows the command."""
    folder: str = ""
    """The folder in which it starts, as far as known."""


class PriorInput(Struct, frozen=True):
    """What earlier calls left."""

    left: str = ""
    """The folder in which a command starts, or the line that input continues."""

    @classmethod
    async def find(cls, typed: ShellInput, key: str, state: SessionState) -> Self:
        if not typed.process and not typed.has_folder:
            return cls()
        begun: dict[str, str] = await state.get(_BEGUN) or {}
        if key in begun:
            return cls(begun[key])
        if typed.process:
            lines: dict[str, str] = await state.get(_LINES) or {}
            return cls(lines.get(typed.process, ""))
        return cls(await state.get(_FOLDER) or "")

    def continued(self, typed: ShellInput) -> ShellInput:
        if typed.process:
            return replace(typed, command=self.left + typed.command)
        if not typed.has_folder:
            return typed
        if typed.place:
            # Where it ends is not kept.
            folder = posixpath.join(WORKSPACE, typed.place)
            return replace(typed, folder=folder, has_folder=False)
        return replace(typed, folder=self.left, place=self.left)

    async def keep(
        self, typed: ShellInput, verdict: Verdict, key: str, state: SessionState
    ) -> None:
        if not typed.process and not typed.has_folder:
            return
        leaves = _unfinished(typed.command) if typed.process else verdict.ends_in
        if leaves == self.left:
            return
        begun: dict[str, str] = await state.get(_BEGUN) or {}
        await state.put(_BEGUN, dict([*begun.items(), (key, self.left)][-MOST_BEGUN:]))
        if typed.process:
            lines: dict[str, str] = await state.get(_LINES) or {}
            others = {name: said for name, said in lines.items() if name != typed.process}
            await state.put(_LINES, {**others, typed.process: leaves} if leaves else others)
        else:
            await state.put(_FOLDER, leaves)


def _unfinished(text: str) -> str:
    end = text.rfind("\n")
    while end > 0 and text[end - 1] == "\\":
        end = text.rfind("\n", 0, end)
    return text[end + 1 :][-MOST_CHARS:]
