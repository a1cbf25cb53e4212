"""What a call would give to a shell, after what calls before it have left: a folder, half a line.

Commands of one call are judged by their text. What several calls do together is not: one goes to a
folder and the next deletes all that is there, or one types half of a line and the next the rest.
"""

import posixpath
from collections.abc import Mapping
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from agent_service.security.families import Verdict
from agent_service.tools.base import SessionState
from agent_service.tools.texts import WORKSPACE

MOST_CHARS = 8_192
"""Of a line that is not finished."""
_FOLDER = "judged_folder"
_LINES = "judged_lines"


class Typed(Struct, frozen=True):
    """What a call would give to a shell."""

    command: str
    place: str = ""
    """What else tells one call from another, such as its folder."""
    has_folder: bool = False
    """It runs in the folder that `place` is, or in the one that the command before ended in."""
    process: str = ""
    """It is input of this program, which may be no shell, so that it need not be understood."""
    shown: str = ""
    """What a person is shown; empty is the command."""
    folder: str = ""
    """Where it begins, as far as that is known."""


class Before(Struct, frozen=True):
    """What calls before have left."""

    folder: str = ""
    lines: Mapping[str, str] = {}
    """What was typed into programs of lines that are not finished, by program."""

    @classmethod
    async def of(cls, typed: Typed, state: SessionState) -> Self:
        """What concerns this call."""
        if typed.process:
            return cls(lines=await state.get(_LINES) or {})
        return cls(await state.get(_FOLDER) or "") if typed.has_folder else cls()

    def continued(self, typed: Typed) -> Typed:
        """The call as what it goes on with."""
        if typed.process:
            return replace(typed, command=self.lines.get(typed.process, "") + typed.command)
        if not typed.has_folder:
            return typed
        if typed.place:
            return replace(typed, folder=posixpath.join(WORKSPACE, typed.place))
        return replace(typed, folder=self.folder, place=self.folder)

    async def keep(self, typed: Typed, verdict: Verdict, state: SessionState) -> None:
        """Keep what the call leaves, before it runs."""
        if typed.process:
            line = _unfinished(typed.command)
            if line != self.lines.get(typed.process, ""):
                others = {name: said for name, said in self.lines.items() if name != typed.process}
                await state.put(_LINES, {**others, typed.process: line} if line else others)
        elif typed.has_folder and verdict.ends_in != self.folder:
            await state.put(_FOLDER, verdict.ends_in)


def _unfinished(text: str) -> str:
    """The last line, as far as it may go on."""
    end = text.rfind("\n")
    while end > 0 and text[end - 1] == "\\":
        end = text.rfind("\n", 0, end)
    return text[end + 1 :][-MOST_CHARS:]
