"""Parses unified diffs and `*** Begin Patch` patches; line numbers are only hints."""

import re
from collections.abc import Sequence

from msgspec import Struct, field


class Malformed(Exception):
    """The patch cannot be parsed; says where and why."""


class Hunk(Struct, frozen=True):
    """Consecutive lines, each kept (` `), removed (`-`) or added (`+`)."""

    lines: tuple[tuple[str, str], ...]
    """Pairs of sign and text."""
    anchors: tuple[str, ...] = ()
    """Lines that stand above the hunk, the outermost first."""
    line: int = 0
    """The stated start line, from 1; 0 if none is stated."""
    at_end: bool = False
    bare: frozenset[str] = frozenset()
    """Signs of the lines that end the file without a newline."""

    @property
    def old(self) -> list[str]:
        """The lines that must be in the file."""
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]


class FileChange(Struct, frozen=True):
    """The change of one file."""

    path: str
    hunks: tuple[Hunk, ...] = ()
    is_new: bool = False
    is_gone: bool = False
    target: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path, self.target) if self.target else (self.path,)


class HunkDraft(Struct):
    """A hunk that is being parsed."""

    anchors: list[str] = field(default_factory=list[str])
    line: int = 0
    at_end: bool = False
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    bare: set[str] = field(default_factory=set[str])
    _loose: int = 0
    """Empty lines at its end, which may not belong to the hunk."""

    def take(self, line: str) -> bool:
        """Take a line; returns whether it belongs to a hunk."""
        if line and line[0] not in " +-":
            return False
        self._loose = 0 if line else self._loose + 1
        self.lines.append((line[0], line[1:]) if line else (" ", ""))
        return True

    def end_bare(self) -> None:
        """Mark the last line as ending the file without a newline."""
        if self.lines:
            sign = self.lines[-1][0]
            self.bare |= {"+", "-"} if sign == " " else {sign}

    def done(self) -> list[Hunk]:
        lines = self.lines[: len(self.lines) - self._loose]
        if not lines:
            return []
        bare = frozenset(self.bare)
        return [Hunk(tuple(lines), tuple(self.anchors), self.line, self.at_end, bare)]


def content(hunks: Sequence[Hunk]) -> str:
    """The text of a new file."""
    lines = [line for hunk in hunks for line in hunk.new]
    is_bare = bool(hunks) and "+" in hunks[-1].bare
    return "\n".join(lines) + ("" if is_bare or not lines else "\n")


_NEITHER = (
    "it has neither form. Begin it with `*** Begin Patch` and `*** Update File: path`, or with "
    "the `---` and `+++` lines of a unified diff, followed by `@@`"
)


def read(text: str) -> list[FileChange]:
    """The changes of a patch, in order; Malformed if there are none."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].startswith("```"):
        lines = lines[1:]
        if "```" in lines:
            lines = lines[: len(lines) - 1 - lines[::-1].index("```")]
    for at, line in enumerate(lines):
        if line.strip() == _BEGIN or _HEADER.fullmatch(line.strip()) is not None:
            return _read_envelope(lines)
        if _is_diff(lines, at):
            return _read_diff(lines)
    raise Malformed(_NEITHER)


# Patches of the `*** Begin Patch` form


_HEADER = re.compile(r"\*\*\* (Add File|Update File|Delete File|Move to):\s*(.+)")
_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"


def _read_envelope(lines: Sequence[str]) -> list[FileChange]:
    reading = _EnvelopeReading()
    for number, line in enumerate(lines, 1):
        try:
            if not reading.take(line):
                break
        except Malformed as error:
            raise Malformed(f"line {number} of the patch {error}: {line[:200]}") from None
    reading.close()
    return reading.changes


class _EnvelopeReading:
    def __init__(self) -> None:
        self.changes: list[FileChange] = []
        self._kind = ""
        self._path = ""
        self._target = ""
        self._drafts: list[HunkDraft] = []

    def take(self, line: str) -> bool:
        text = line.strip() if line.startswith("***") else ""
        if text == _END:
            return False
        if found := _HEADER.fullmatch(text):
            self._head(found[1], found[2].strip())
        elif text == _END_OF_FILE and self._drafts:
            self._drafts[-1].at_end = True
        elif text not in ("", _BEGIN):
            raise Malformed("is no header that is known")
        elif self._kind and not text:
            self._body(line)
        return True

    def close(self) -> None:
        if not self._kind:
            return
        hunks = tuple(hunk for draft in self._drafts for hunk in draft.done())
        if self._kind == "Update" and not hunks and not self._target:
            raise Malformed(f"the patch changes nothing in {self._path}")
        self.changes.append(
            FileChange(
                self._path,
                hunks,
                is_new=self._kind == "Add",
                is_gone=self._kind == "Delete",
                target=self._target,
            )
        )
        self._kind = self._target = ""

    def _head(self, kind: str, path: str) -> None:
        if kind == "Move to":
            if self._kind != "Update" or self._target:
                raise Malformed("moves no file that is being updated")
            self._target = path
            return
        self.close()
        self._kind, self._path, self._drafts = kind.partition(" ")[0], path, []

    def _body(self, line: str) -> None:
        if line.startswith("@@") and self._kind == "Update":
            self._anchor(line[2:].strip().removesuffix("@@").strip())
            return
        if self._kind == "Delete":
            if line.strip():
                raise Malformed("follows a file that is deleted")
            return
        if not self._drafts or self._drafts[-1].at_end:
            if not line.strip():
                return
            self._drafts.append(HunkDraft())
        if self._kind == "Add" and line[:1] not in ("", "+"):
            raise Malformed("must begin with `+`, because the file is new")
        if not self._drafts[-1].take(line):
            raise Malformed("does not begin with a space, `-`, `+` or `@@`")

    def _anchor(self, anchor: str) -> None:
        if not self._drafts or self._drafts[-1].lines:
            self._drafts.append(HunkDraft())
        if anchor:
            self._drafts[-1].anchors.append(anchor)


# Unified diffs, with or without git headers


_GIT = re.compile(r"diff --git a/(.+) b/(.+)")
_RANGE = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@.*")
_NOWHERE = "/dev/null"


def _is_diff(lines: Sequence[str], at: int) -> bool:
    return _GIT.fullmatch(lines[at]) is not None or _names_file(lines, at)


def _read_diff(lines: Sequence[str]) -> list[FileChange]:
    changes: list[FileChange] = []
    at = 0
    while at < len(lines):
        if not _is_diff(lines, at):
            at += 1
            continue
        reading = _DiffReading(lines, at)
        changes.append(reading.read())
        at = reading.at
    return changes


def _names_file(lines: Sequence[str], at: int) -> bool:
    """Whether a file's two header lines stand here, and not lines that only look like them."""
    if not lines[at].startswith("--- ") or not lines[at + 1 : at + 2]:
        return False
    below = next((line for line in lines[at + 2 :] if line.strip()), "@@")
    return lines[at + 1].startswith("+++ ") and below.startswith(("@@", "diff "))


class _DiffReading:
    def __init__(self, lines: Sequence[str], at: int) -> None:
        self.at = at
        self._lines = lines
        self._old = self._new = ""
        self._moved: dict[str, str] = {}

    def read(self) -> FileChange:
        self._heads()
        drafts: list[HunkDraft] = []
        while self.at < len(self._lines) and not _is_diff(self._lines, self.at):
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
            self._old, self._new = git[1], git[2]
            self.at += 1
            self._extended()
        if self.at < len(self._lines) and _names_file(self._lines, self.at):
            old, new = _name(self._lines[self.at][4:]), _name(self._lines[self.at + 1][4:])
            if old.startswith(("a/", _NOWHERE)) and new.startswith(("b/", _NOWHERE)):
                old, new = old.removeprefix("a/"), new.removeprefix("b/")
            self._old, self._new = old, new
            self.at += 2

    def _extended(self) -> None:
        while self.at < len(self._lines):
            line = self._lines[self.at]
            if _is_diff(self._lines, self.at) or line.startswith("@@"):
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
                f"line {self.at + 1} of the patch does not begin with a space, `-`, `+` or `@@`: "
                f"{line[:200]}"
            )


def _draft(head: str) -> HunkDraft:
    if stated := _RANGE.fullmatch(head):
        # If nothing is removed, the stated line is the one before.
        return HunkDraft(line=int(stated[1]) + (stated[2] == "0"))
    anchor = head.removeprefix("@@").strip().removesuffix("@@").strip(" .")
    return HunkDraft(anchors=[anchor] if anchor else [])


def _name(stated: str) -> str:
    return stated.partition("\t")[0].strip()
