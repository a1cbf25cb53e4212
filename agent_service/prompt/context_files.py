"""What a project tells its agents: one kind of file of its top folder, as the prompt has it.

The first kind that is there and says something wins. What it says is scanned, since a project may
be a stranger's, and cut to a length that leaves room for the conversation.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Sequence

from agent_service.sandbox import Files, PathRefused
from agent_service.security.threats import ThreatScanner

ROOT = "/workspace"
HEADING = (
    "# Project Context\n\nThe folder that you work in has notes for you, which you are to follow:"
)
MAX_BYTES = 1024 * 1024
"""A longer file is no note."""
HEAD_SHARE = 0.7
TAIL_SHARE = 0.2

_OWN = (".hermes.md", "HERMES.md")
_KINDS = (*_OWN, "AGENTS.md", "CLAUDE.md")
_CURSOR = ".cursorrules"
_CURSOR_RULES = ".cursor/rules"
_MAX_RULES = 100
_FRONTMATTER = re.compile(r"\A---[ \t]*\r?\n.*?^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)

_log = logging.getLogger(__name__)


class ContextFiles:
    """Reads them, through whatever gives files."""

    def __init__(self, scanner: ThreatScanner, max_chars: int) -> None:
        self._scanner = scanner
        self._max_chars = max_chars

    async def layer(self, files: Files) -> str:
        """The layer of the prompt; empty when the folder has no such file."""
        found = [part async for part in self._first_kind(files)]
        return "\n\n".join([HEADING, *found]) if found else ""

    async def first(self, files: Files, folder: str, names: Sequence[str]) -> str:
        """The first of some files of a folder that says something, as the model sees it."""
        for name in names:
            if text := await self._read(files, f"{folder}/{name}", name):
                return text
        return ""

    async def _first_kind(self, files: Files) -> AsyncIterator[str]:
        for name in _KINDS:
            if text := await self._read(files, f"{ROOT}/{name}", name):
                yield f"## {name}\n\n{text}"
                return
        for name in (_CURSOR, *await _rules(files)):
            if text := await self._read(files, f"{ROOT}/{name}", name):
                yield f"## {name}\n\n{text}"

    async def _read(self, files: Files, path: str, name: str) -> str:
        """What a file says; empty when it is not there or cannot be read."""
        try:
            data = await files.read(path, MAX_BYTES)
        except PathRefused:
            return ""
        return await self.shown(name, data)

    async def shown(self, name: str, data: bytes) -> str:
        """What a file says, as the model sees it; empty when it is no text."""
        text = data.decode(errors="replace").removeprefix("\ufeff")
        if not text.strip() or "\0" in text:
            return ""
        if name in _OWN:
            text = _FRONTMATTER.sub("", text, count=1)
        short = shortened(text.strip(), name, self._max_chars)
        cleaned, threats = await asyncio.to_thread(self._scanner.clean, short)
        if threats:
            families = sorted({threat.family for threat in threats})
            _log.warning("%s was not taken over as it is: %s", name, ", ".join(families))
        return cleaned


async def _rules(files: Files) -> list[str]:
    try:
        entries, _ = await files.list(f"{ROOT}/{_CURSOR_RULES}", _MAX_RULES)
    except PathRefused:
        return []
    named = (entry.path.rpartition("/")[2] for entry in entries)
    return [f"{_CURSOR_RULES}/{name}" for name in named if name.endswith(".mdc")]


def shortened(text: str, name: str, max_chars: int) -> str:
    """At most about so many characters of a file: mostly its head, and its tail."""
    if len(text) <= max_chars:
        return text
    head, tail = int(max_chars * HEAD_SHARE), int(max_chars * TAIL_SHARE)
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters of {name} left out …]\n{text[-tail:]}"
