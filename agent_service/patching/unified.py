"""Reads unified diffs, with the headers of git or without.

The numbers of lines that a diff states are hints: models count badly.
"""

import re
from collections.abc import Sequence

from agent_service.patching.changes import FileChange, HunkDraft, Malformed

_GIT = re.compile(r"diff --git (\"?)a/(.+)\1 (\"?)b/(.+)\3")
_RANGE = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@.*")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b'"': b'"', b"\\": b"\\"}
_NOWHERE = "/dev/null"


def is_header(lines: Sequence[str], at: int) -> bool:
    """Whether a file's changes begin at a line."""
    return _GIT.fullmatch(lines[at]) is not None or _names_file(lines, at)


def read(lines: Sequence[str]) -> list[FileChange]:
    """The changes of a diff; Malformed where it is none."""
    changes: list[FileChange] = []
    at = 0
    while at < len(lines):
        if not is_header(lines, at):
            at += 1
            continue
        reading = _Reading(lines, at)
        changes.append(reading.read())
        at = reading.at
    return changes


def _names_file(lines: Sequence[str], at: int) -> bool:
    """Whether a file's two names stand here, and not lines that happen to look like them."""
    if not lines[at].startswith("--- ") or not lines[at + 1 : at + 2]:
        return False
    below = next((line for line in lines[at + 2 :] if line.strip()), "@@")
    return lines[at + 1].startswith("+++ ") and below.startswith(("@@", "diff "))


class _Reading:
    """Reads what becomes of one file."""

    def __init__(self, lines: Sequence[str], at: int) -> None:
        self.at = at
        self._lines = lines
        self._old = self._new = ""
        self._moved: dict[str, str] = {}

    def read(self) -> FileChange:
        self._heads()
        drafts: list[HunkDraft] = []
        while self.at < len(self._lines) and not is_header(self._lines, self.at):
            self._body(drafts)
            self.at += 1
        hunks = tuple(hunk for draft in drafts for hunk in draft.done())
        is_new, is_gone = self._old == _NOWHERE, self._new == _NOWHERE
        if self._moved:
            return FileChange(self._moved["from"], hunks, target=self._moved["to"])
        path = self._old if is_gone else self._new
        if not hunks and not is_new and not is_gone:
            raise Malformed(f"the patch changes nothing in {path}")
        return FileChange(path, hunks, is_new=is_new, is_gone=is_gone)

    def _heads(self) -> None:
        if git := _GIT.fullmatch(self._lines[self.at]):
            self._old, self._new = _path(git[2], git[1]), _path(git[4], git[3])
            self.at += 1
            self._extended()
        if self.at < len(self._lines) and _names_file(self._lines, self.at):
            old, new = _name(self._lines[self.at][4:]), _name(self._lines[self.at + 1][4:])
            if old.startswith(("a/", _NOWHERE)) and new.startswith(("b/", _NOWHERE)):
                old, new = old.removeprefix("a/"), new.removeprefix("b/")
            self._old, self._new = old, new
            self.at += 2

    def _extended(self) -> None:
        """What git says between its own header and the file's names."""
        while self.at < len(self._lines):
            line = self._lines[self.at]
            if is_header(self._lines, self.at) or line.startswith("@@"):
                return
            word, _, rest = line.partition(" ")
            if line.startswith("new file mode"):
                self._old = _NOWHERE
            elif line.startswith("deleted file mode"):
                self._new = _NOWHERE
            elif word == "rename":
                which, _, name = rest.partition(" ")
                self._moved[which] = _name(name)
            elif line.startswith(("copy ", "GIT binary patch", "Binary files ")):
                raise Malformed(f"it copies files or has binary ones, which it may not: {line}")
            self.at += 1

    def _body(self, drafts: list[HunkDraft]) -> None:
        line = self._lines[self.at]
        if line.startswith("@@"):
            drafts.append(_draft(line))
        elif line.startswith("\\") and drafts:
            drafts[-1].end_bare()
        elif drafts and not drafts[-1].take(line):
            raise Malformed(
                f"line {self.at + 1} of the patch begins with none of space, `-`, `+` and `@@`: "
                f"{line[:200]}"
            )


def _draft(head: str) -> HunkDraft:
    if stated := _RANGE.fullmatch(head):
        # Where nothing is taken out, the line is the one before.
        return HunkDraft(line=int(stated[1]) + (stated[2] == "0"))
    anchor = head.removeprefix("@@").strip().removesuffix("@@").strip(" .")
    return HunkDraft(anchors=[anchor] if anchor else [])


def _name(stated: str) -> str:
    stated = stated.partition("\t")[0].strip()
    is_quoted = len(stated) > 1 and stated[0] == stated[-1] == '"'
    return _path(stated[1:-1], '"') if is_quoted else stated


def _path(stated: str, quote: str) -> str:
    if not quote:
        return stated
    return _ESCAPE.sub(_unescaped, stated.encode()).decode(errors="surrogateescape")


def _unescaped(found: re.Match[bytes]) -> bytes:
    escape = found[1]
    if len(escape) == 3:
        return bytes([int(escape, 8) & 0xFF])
    return _ESCAPES.get(escape, escape)
