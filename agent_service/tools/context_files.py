"""Context files of a project, such as AGENTS.md.

The prompt has the one of the top folder; the first result from a deeper folder adds that folder's.
The first kind of file that has content wins. Content is scanned, since it may come from strangers,
and cut to a maximum length.
"""

import asyncio
import logging
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from msgspec.structs import replace

from agent_service.records.requests import SUBAGENT, TurnRequest
from agent_service.records.sandbox import Files, PathRefused
from agent_service.security.threats import Screened, Source, ThreatScanner
from agent_service.storage.sessions import SKIPS_CONTEXT_FILES
from agent_service.tools.base import (
    A,
    RetryWithHint,
    Tool,
    ToolContext,
    ToolFailed,
    ToolResult,
    Wrapper,
)
from agent_service.tools.guards.files import guarded_family, real_path, real_places
from agent_service.tools.output import ends
from services.home.project_notes import MAX_BYTES, OWN_NAMES, NotesAbove, clean_notes

ROOT = "/workspace"
HEADING = "# Project Context\n\nThe folder that you work in has instructions for you. Follow them:"
HEAD_SHARE = 0.7
TAIL_SHARE = 0.2

_USUAL = ("AGENTS.md", "CLAUDE.md")
_CURSOR = ".cursorrules"
NAMES = (*OWN_NAMES, *_USUAL, _CURSOR)
"""Names in a folder, in order of preference."""
_CURSOR_RULES = ".cursor/rules"
_MAX_RULES = 100

_log = logging.getLogger(__name__)

NOTHING = Screened()


class ContextFiles:
    """Reads context files."""

    def __init__(self, scanner: ThreatScanner, max_chars: int, own: Sequence[str] = ()) -> None:
        """`own` is the agent's home, as paths name it."""
        self._scanner = scanner
        self._own = own
        self._max_chars = max_chars

    async def project(self, files: Files, above: NotesAbove | None = None) -> Screened:
        """The context file of the top folder, or else of a folder above it."""
        found = [(name, shown) async for name, shown in self._first_kind(files, above)]
        if not found:
            return NOTHING
        parts = [f"## {name}\n\n{shown.text}" for name, shown in found]
        blocked = tuple(each for _, shown in found for each in shown.blocked)
        return Screened("\n\n".join([HEADING, *parts]), blocked)

    async def first(self, files: Files, folder: str, names: Sequence[str]) -> Screened:
        """The first of some files in a folder that has content, as the model sees it."""
        for name in names:
            path = f"{folder}/{name}"
            if (shown := await self._read(files, path, path.removeprefix(f"{ROOT}/"))).text:
                return shown
        return NOTHING

    async def _first_kind(
        self, files: Files, above: NotesAbove | None
    ) -> AsyncIterator[tuple[str, Screened]]:
        async for name, shown in self._single(files, above):
            if shown.text:
                yield name, shown
                return
        for name in (_CURSOR, *await _rules(files)):
            if (shown := await self._read(files, f"{ROOT}/{name}", name)).text:
                yield name, shown

    async def _single(
        self, files: Files, above: NotesAbove | None
    ) -> AsyncIterator[tuple[str, Screened]]:
        """The kinds that are a single file, in order; each is read on demand."""
        for name in OWN_NAMES:
            yield name, await self._read(files, f"{ROOT}/{name}", name)
        if above is not None:
            yield above.path, await self._render(above.path, above.text)
        for name in _USUAL:
            yield name, await self._read(files, f"{ROOT}/{name}", name)

    async def _read(self, files: Files, path: str, name: str) -> Screened:
        try:
            data = await files.read(path, MAX_BYTES)
            if data and await self._leads_astray(files, path):
                _log.warning("%s was not taken over: it leads to what is asked for first", name)
                return NOTHING
        except PathRefused:
            return NOTHING
        return await self.render(name, data)

    async def _leads_astray(self, files: Files, path: str) -> bool:
        """Whether a link leads to keys, to the agent's home or to an unknown place."""
        try:
            real = await real_path(files, path)
            if real == path:
                return False
            own = await real_places(self._own, files)
        except (RetryWithHint, ToolFailed):
            return True
        return bool(guarded_family(real, own))

    async def render(self, name: str, data: bytes) -> Screened:
        return await self._render(
            name, clean_notes(data, has_frontmatter=name.rpartition("/")[2] in OWN_NAMES)
        )

    async def _render(self, name: str, text: str) -> Screened:
        if not text:
            return NOTHING
        head, tail = int(self._max_chars * HEAD_SHARE), int(self._max_chars * TAIL_SHARE)
        short = text
        if len(text) > self._max_chars:
            short = ends(text, head, tail, f"characters of {name} left out")
        cleaned, threats = await asyncio.to_thread(self._scanner.clean, short, Source.CONTEXT_FILE)
        if not threats:
            return Screened(cleaned)
        families = ", ".join(sorted({threat.family for threat in threats}))
        _log.warning("%s was not taken over as it is: %s", name, families)
        message = (
            f"{name} has text that looks like an attack ({families}). The model sees [BLOCKED] "
            "instead. Check the file before you trust it."
        )
        return Screened(cleaned, (message,))


def skips_context_files(request: TurnRequest) -> bool:
    """Whether a session starts without context files, as a subagent does."""
    return request.new_session.skip_context_files or request.kind == SUBAGENT


async def _rules(files: Files) -> list[str]:
    try:
        entries, _ = await files.list(f"{ROOT}/{_CURSOR_RULES}", _MAX_RULES)
    except PathRefused:
        return []
    named = (entry.path.rpartition("/")[2] for entry in entries)
    return [f"{_CURSOR_RULES}/{name}" for name in named if name.endswith(".mdc")]


# Context files of deeper folders


HINTS = "hints"
"""Name of the session's value that maps each folder to the call that read it first."""
MAX_DEPTH = 16
MAX_FOLDERS = 1000
"""Per session."""

Paths: TypeAlias = Callable[[A, ToolContext], Awaitable[Sequence[str]]]
"""The paths that a successful call touched, absolute or relative to the workspace."""


def folders_of(path: str) -> list[str]:
    """The folders on a path below the top of the workspace, including the last."""
    whole = posixpath.normpath(posixpath.join(ROOT, path))
    inside = whole.removeprefix(f"{ROOT}/")
    if inside == whole:
        return []
    parts = inside.split("/")[:MAX_DEPTH]
    return [f"{ROOT}/{'/'.join(parts[: depth + 1])}" for depth in range(len(parts))]


async def _path(arguments: Any, _context: ToolContext) -> Sequence[str]:
    return (arguments.path,)


class Hints:
    """Finds context files of deeper folders."""

    def __init__(self, context_files: ContextFiles) -> None:
        self._context_files = context_files
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def read(self, folders: Sequence[str], context: ToolContext) -> Screened:
        """The context files of folders that no earlier call has read."""
        # One at a time, so that only one of several parallel calls shows a file.
        async with self._locks.setdefault(context.caller.session_id, asyncio.Lock()):
            seen: dict[str, str] = await context.state.get(HINTS) or {}
            if not seen and await context.state.get(SKIPS_CONTEXT_FILES):
                return Screened()
            # A call repeated after a crash shows them again, since its result was not stored.
            new = [folder for folder in folders if seen.get(folder, context.key) == context.key]
            new = new[: max(0, MAX_FOLDERS - len(seen))]
            if not new:
                return Screened()
            found = [await self._context_files.first(context.files, f, NAMES) for f in new]
            await context.state.put(HINTS, {**seen, **dict.fromkeys(new, context.key)})
        text = "\n\n".join(
            f"[Instructions in {folder}. Follow them for the files in it:]\n{shown.text}"
            for folder, shown in zip(new, found, strict=True)
            if shown.text
        )
        return Screened(text, tuple(each for shown in found for each in shown.blocked))


class WithHints(Wrapper[A]):
    """A tool whose results include new context files of the folders that a call touches."""

    def __init__(self, inner: Tool[A], paths: Paths[A], hints: Hints) -> None:
        super().__init__(inner)
        self._paths = paths
        self._hints = hints

    async def run(self, arguments: A, context: ToolContext) -> ToolResult:
        result = await self._inner.run(arguments, context)
        if context.inner is None:
            # A program reads the result and has no use for notes.
            return result
        paths = await self._paths(arguments, context)
        folders = dict.fromkeys(folder for path in paths for folder in _led_through(path))
        if not folders:
            return result
        hint = await self._hints.read(list(folders), context)
        return replace(
            result,
            beside="\n\n".join(filter(None, (result.beside, hint.text))),
            notices=(*result.notices, *hint.blocked),
        )


def _led_through(path: str) -> list[str]:
    folders = folders_of(path)
    # A call that touches a context file itself does not need it shown.
    return folders[:-2] if posixpath.basename(path) in NAMES else folders


def hinted(tool: Tool[Any], hints: Hints | None, paths: Paths[Any] = _path) -> Tool[Any]:
    """The tool with hints about the paths of its calls; unchanged without hints."""
    return tool if hints is None else WithHints(tool, paths, hints)
