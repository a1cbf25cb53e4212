"""Notes of a project's deeper folders, which join the first result that comes from there."""

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from msgspec.structs import replace

from agent_service.security.threats import Screened
from agent_service.storage.sessions import SKIPS_CONTEXT_FILES
from agent_service.tools.base import A, Tool, ToolContext, ToolResult, Wrapper
from agent_service.tools.context_files import NAMES, ROOT, ContextFiles

STATE = "hints"
"""Name of the session's value that says which call looked into which folder first."""
MAX_DEPTH = 16
MAX_FOLDERS = 1000
"""No more are looked into in a session."""


Paths: TypeAlias = Callable[[A, ToolContext], Awaitable[Sequence[str]]]
"""The paths that a call which has succeeded leads to, absolute or relative to the workspace."""


def folders_of(path: str) -> list[str]:
    """The folders that a path leads through below the top of the workspace, the last one too."""
    whole = posixpath.normpath(posixpath.join(ROOT, path))
    inside = whole.removeprefix(f"{ROOT}/")
    if inside == whole:
        return []
    parts = inside.split("/")[:MAX_DEPTH]
    return [f"{ROOT}/{'/'.join(parts[: depth + 1])}" for depth in range(len(parts))]


async def _path(arguments: Any, _context: ToolContext) -> Sequence[str]:
    return (arguments.path,)


class Hints:
    """Finds what the folders of sessions say."""

    def __init__(self, context_files: ContextFiles) -> None:
        self._context_files = context_files
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def of(self, folders: Sequence[str], context: ToolContext) -> Screened:
        """What folders say that no earlier call has looked into."""
        # Calls side by side look one after the other, so that one of them tells it.
        async with self._locks.setdefault(context.caller.session_id, asyncio.Lock()):
            seen: dict[str, str] = await context.state.get(STATE) or {}
            if not seen and await context.state.get(SKIPS_CONTEXT_FILES):
                return Screened()
            # The call that is made again after a crash tells again what was never stored.
            new = [folder for folder in folders if seen.get(folder, context.key) == context.key]
            new = new[: max(0, MAX_FOLDERS - len(seen))]
            if not new:
                return Screened()
            said = [await self._context_files.first(context.files, f, NAMES) for f in new]
            await context.state.put(STATE, {**seen, **dict.fromkeys(new, context.key)})
        text = "\n\n".join(
            f"[Notes of {folder}, to be followed for what is in there:]\n{shown.text}"
            for folder, shown in zip(new, said, strict=True)
            if shown.text
        )
        return Screened(text, tuple(each for shown in said for each in shown.blocked))


class WithHints(Wrapper[A]):
    """A tool whose results have, once, what the folders say that a call leads to."""

    def __init__(self, inner: Tool[A], paths: Paths[A], hints: Hints) -> None:
        super().__init__(inner)
        self._paths = paths
        self._hints = hints

    async def run(self, arguments: A, context: ToolContext) -> ToolResult:
        """Run the inner tool, and look into the folders once it has succeeded."""
        result = await self._inner.run(arguments, context)
        if context.inner is None:
            # A program reads it, and has no use for notes.
            return result
        paths = await self._paths(arguments, context)
        folders = dict.fromkeys(folder for path in paths for folder in _led_through(path))
        if not folders:
            return result
        hint = await self._hints.of(list(folders), context)
        return replace(
            result,
            beside="\n\n".join(filter(None, (result.beside, hint.text))),
            notices=(*result.notices, *hint.blocked),
        )


def _led_through(path: str) -> list[str]:
    folders = folders_of(path)
    # Who reads or writes the notes themselves has them.
    return folders[:-2] if posixpath.basename(path) in NAMES else folders


def hinted(tool: Tool[Any], hints: Hints | None, paths: Paths[Any] = _path) -> Tool[Any]:
    """A tool of the sandbox with hints, where there are any, of the paths that a call leads to."""
    return tool if hints is None else WithHints(tool, paths, hints)
