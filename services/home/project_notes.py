"""A project's notes for agents in all of its folders: `.hermes.md` or `HERMES.md`."""

import os
import re
import stat
from pathlib import Path

from msgspec import Struct

from services.home.texts import decode_text

OWN_NAMES = (".hermes.md", "HERMES.md")
"""The first of these with content counts."""
MAX_BYTES = 1024 * 1024
"""Longer files are ignored."""
MAX_DEPTH = 64
"""The most folders above a session's that are searched."""

_FRONTMATTER = re.compile(r"\A---[ \t]*\r?\n.*?^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PATH = re.compile(rf"(?:\.\./){{1,{MAX_DEPTH}}}(?:{'|'.join(map(re.escape, OWN_NAMES))})")


class NotesAbove(Struct, frozen=True):
    """Notes in a folder above that of a session."""

    path: str
    """Relative to the session's folder: `../.hermes.md`."""
    text: str


def clean_notes(data: bytes, *, has_frontmatter: bool) -> str:
    """Return the text of a file of notes; empty if it is not text, or has none."""
    text = decode_text(data, "replace")
    if "\0" in text:
        return ""
    return (_FRONTMATTER.sub("", text, count=1) if has_frontmatter else text).strip()


def is_path_above(path: str) -> bool:
    """Return whether notes above a session's folder can have this path."""
    return _PATH.fullmatch(path) is not None


def notes_above(folder: Path, owner: int) -> NotesAbove | None:
    """Return the user's nearest notes above a folder, up to the top of its git repository.

    None if the folder has notes of its own, is that top, or is in no repository.
    """
    if _has_git(folder) or _notes(folder, owner):
        return None
    between: list[Path] = []
    for parent in folder.parents[:MAX_DEPTH]:
        between.append(parent)
        if _has_git(parent):
            return _nearest(between, owner)
    return None


def _nearest(folders: list[Path], owner: int) -> NotesAbove | None:
    for steps, folder in enumerate(folders, 1):
        if found := _notes(folder, owner):
            name, text = found
            return NotesAbove("../" * steps + name, text)
    return None


def _has_git(folder: Path) -> bool:
    return os.path.lexists(folder / ".git")


def _notes(folder: Path, owner: int) -> tuple[str, str] | None:
    for name in OWN_NAMES:
        if text := clean_notes(_read(folder / name, owner), has_frontmatter=True):
            return name, text
    return None


def _read(path: Path, owner: int) -> bytes:
    """Read a file; empty if it cannot be read or is not safe.

    This runs outside of a sandbox: following a stranger's link would send any of the user's files
    to the model, and a stranger's notes in a shared folder would count as the user's.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            is_plain = stat.S_ISREG(found.st_mode) and found.st_uid == owner
            data = file.read(MAX_BYTES + 1) if is_plain else b""
    except OSError:
        return b""
    return data if len(data) <= MAX_BYTES else b""
