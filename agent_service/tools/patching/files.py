"""Applies a patch to the files of a sandbox, completely or not at all."""

import asyncio
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from agent_service.records.sandbox import Files, PathRefused, SandboxUnavailable
from agent_service.tools.base import ToolFailed, ToolResult
from agent_service.tools.patching.forms import FileChange, Hunk, content
from agent_service.tools.patching.matcher import DoesNotFit, applied
from agent_service.tools.patching.syntax import broken
from agent_service.tools.texts import MAX_FILE_BYTES, decode_text, diff, encode_text, same_file
from services.lifecycle import unbroken

MAX_FILES = 100
MAX_BYTES = 32 * 1024 * 1024
"""For all files of a patch together."""

_NOTHING = "Nothing was changed."


class _File(Struct, eq=False):
    path: str
    before: bytes | None
    after: bytes | None
    source: "_File | None" = None
    """The file that this one is moved from."""

    @property
    def is_changed(self) -> bool:
        return self.before != self.after or self.source is not None

    @property
    def was(self) -> "_File":
        return self.source or self


class PatchedFiles:
    """The files of a patch, changed in memory until all of it applies."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._states: dict[str, _File] = {}
        self._bytes = 0

    async def apply(self, changes: Sequence[FileChange]) -> ToolResult:
        for change in changes:
            try:
                await self._plan(change)
            except (DoesNotFit, PathRefused, ToolFailed) as error:
                raise ToolFailed(f"{_explain(change.path, error)}\n{_NOTHING}") from None
        wanted = [state for state in self._states.values() if state.is_changed]
        moved = [state.source for state in wanted if _is_moved(state)]
        # Moved files go with their move; removals come last.
        wanted = [state for state in wanted if state not in moved]
        # All or nothing, even if the turn is interrupted.
        await unbroken(self._write(sorted(wanted, key=lambda state: state.after is None)))
        return await asyncio.to_thread(_result, wanted)

    async def _plan(self, change: FileChange) -> None:
        state = await self._state(change.path)
        if change.is_new:
            if state.after is not None:
                raise ToolFailed(f"{change.path} already exists. Update it, or delete it first.")
            state.after = content(change.hunks).encode()
            return
        if state.after is None:
            raise ToolFailed(f"There is no {change.path}.")
        if change.hunks:
            hunked = partial(_hunked, change.path, state.after, change.hunks)
            state.after = await asyncio.to_thread(hunked)
        if change.is_gone:
            if change.hunks and state.after:
                raise ToolFailed(f"{change.path} has lines that the patch does not delete.")
            state.after = state.source = None
        elif change.target and same_file(change.target) != same_file(change.path):
            await self._move(change.target, state)

    async def _move(self, target: str, state: _File) -> None:
        there = await self._state(target)
        if there.after is not None:
            raise ToolFailed(f"{target} already exists, so {state.path} cannot be moved there.")
        there.after, there.source = state.after, state.source
        if there.source is None and state.before is not None:
            there.source = state
        state.after = state.source = None

    async def _state(self, path: str) -> _File:
        key = same_file(path)
        if key not in self._states:
            if len(self._states) == MAX_FILES:
                raise ToolFailed(f"A patch can change at most {MAX_FILES} files.")
            data = await self._read(path)
            self._bytes += len(data or b"")
            if self._bytes > MAX_BYTES:
                raise ToolFailed(
                    f"The files of a patch can have at most {MAX_BYTES:,} bytes in total."
                )
            self._states[key] = _File(path, data, data)
        return self._states[key]

    async def _read(self, path: str) -> bytes | None:
        if await self._files.stat(path) is None:
            return None
        return await self._files.read(path, MAX_FILE_BYTES)

    async def _write(self, wanted: Sequence[_File]) -> None:
        done: list[_File] = []
        try:
            for state in wanted:
                done.append(state)
                await self._put(state)
        except (PathRefused, SandboxUnavailable) as error:
            left = [path for state in reversed(done) for path in await self._restore(state)]
            text = (
                f"These files could not be restored, so check them: {', '.join(left)}."
                if left
                else ""
            )
            raise ToolFailed(f"{_explain(done[-1].path, error)}\n{text or _NOTHING}") from None

    async def _put(self, state: _File) -> None:
        if state.after is None:
            await self._files.remove(state.path)
            return
        await self._files.write(state.path, state.after)
        if state.source is not None and _is_moved(state):
            # Creating the folder wrote a file there; the move replaces it and keeps permissions.
            await self._files.move(state.source.path, state.path)
            await self._files.write(state.path, state.after)

    async def _restore(self, state: _File) -> list[str]:
        try:
            source = state.source if _is_moved(state) else None
            if source is not None and source.before is not None:
                if await self._files.stat(source.path) is None:
                    await self._files.move(state.path, source.path)
                await self._files.write(source.path, source.before)
            if state.before is not None:
                await self._files.write(state.path, state.before)
            else:
                await self._files.remove(state.path)
        except (PathRefused, SandboxUnavailable):
            return [each.path for each in (state, state.source) if each is not None]
        return []


def _explain(path: str, error: Exception) -> str:
    return str(error) if path in str(error) else f"{path}: {error}"


def _is_moved(state: _File) -> bool:
    """Whether a file is moved, leaving nothing behind."""
    return state.source is not None and state.source.after is None


def _hunked(path: str, data: bytes, hunks: Sequence[Hunk]) -> bytes:
    text, encoding = decode_text(path, data)
    return encode_text(path, applied(text, hunks), encoding)


def _result(wanted: Sequence[_File]) -> ToolResult:
    notes = [
        broken(state.path, _text(state.was.before) or "", _text(state.after) or "")
        for state in wanted
        if state.after is not None
    ]
    return ToolResult(
        "\n".join(map(_render, wanted)) or "Nothing changed.", beside="\n".join(filter(None, notes))
    )


def _render(state: _File) -> str:
    if state.source is not None:
        head = f"Moved {state.source.path} to {state.path}."
    elif state.before is None:
        head = f"Added {state.path}."
    else:
        head = f"Removed {state.path}." if state.after is None else ""
    changed = diff(state.path, _text(state.was.before), _text(state.after), state.was.path)
    return "\n".join(filter(None, (head, changed)))


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else decode_text("", data)[0]
    except ToolFailed:
        return None
