"""What a call gives to a shell, together with what earlier calls left: a folder, half a line.

The text of one call does not show what several calls do together: one changes the folder and the
next deletes everything there, or one types half of a line and the next types the rest.
"""

import posixpath
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from agent_service.security.commands.families import Verdict
from agent_service.tools.base import SessionState
from agent_service.tools.texts import WORKSPACE

MOST_CHARS = 8_192
"""Of a line that is not finished."""
MOST_BEGUN = 64
"""Calls that may be made again, of which it is kept what they went on with."""
_FOLDER = "judged_folder"
_LINES = "judged_lines"
_BEGUN = "judged_begun"
KEPT = frozenset({_FOLDER, _LINES, _BEGUN})
"""Names of the session's values that nothing but its calls changes."""


class ShellInput(Struct, frozen=True):
    """What a call gives to a shell."""

    command: str
    place: str = ""
    """What distinguishes calls with the same command, such as the folder."""
    has_folder: bool = False
    """It runs in the folder `place`, or in the one that the last command ended in."""
    process: str = ""
    """It is input for this program, which may not be a shell, so it may be unparseable."""
    shown: str = ""
    """What a person sees; empty is the command."""
    folder: str = ""
    """The folder in which it starts, as far as it is known."""


class PriorInput(Struct, frozen=True):
    """What earlier calls left."""

    left: str = ""
    """The folder in which a command starts, or the line that input continues."""

    @classmethod
    async def of(cls, typed: ShellInput, key: str, state: SessionState) -> Self:
        """What the call of this key continues; the same if the call is repeated."""
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
        """The call, joined with what it continues."""
        if typed.process:
            return replace(typed, command=self.left + typed.command)
        if not typed.has_folder:
            return typed
        if typed.place:
            return replace(typed, folder=posixpath.join(WORKSPACE, typed.place))
        return replace(typed, folder=self.left, place=self.left)

    async def keep(
        self, typed: ShellInput, verdict: Verdict, key: str, state: SessionState
    ) -> None:
        """Keep what the call leaves, before it runs."""
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
    """The last line, as far as it may go on."""
    end = text.rfind("\n")
    while end > 0 and text[end - 1] == "\\":
        end = text.rfind("\n", 0, end)
    return text[end + 1 :][-MOST_CHARS:]
