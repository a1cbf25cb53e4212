"""Reads patches of the form `*** Begin Patch`, which name files and the lines around a change."""

import re
from collections.abc import Sequence

from agent_service.patching.changes import FileChange, HunkDraft, Malformed

_HEADER = re.compile(r"\*\*\* (Add|Update|Delete|Move) (File|to):\s*(.+)")
_MOVE = re.compile(r"(.+?)\s+->\s+(.+)")
_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"


def is_header(line: str) -> bool:
    """Whether a line shows that a patch has this form."""
    return line.strip() == _BEGIN or _HEADER.fullmatch(line.strip()) is not None


def read(lines: Sequence[str]) -> list[FileChange]:
    """The changes of a patch; Malformed where it is none."""
    reading = _Reading()
    for number, line in enumerate(lines, 1):
        try:
            if not reading.take(line):
                break
        except Malformed as error:
            raise Malformed(f"line {number} of the patch {error}: {line[:200]}") from None
    reading.close()
    return reading.changes


class _Reading:
    def __init__(self) -> None:
        self.changes: list[FileChange] = []
        self._kind = ""
        self._path = ""
        self._target = ""
        self._drafts: list[HunkDraft] = []

    def take(self, line: str) -> bool:
        """Take a line; whether more may come."""
        said = line.strip() if line.startswith("***") else ""
        if said == _END:
            return False
        if found := _HEADER.fullmatch(said):
            self._head(found[1], found[2], found[3].strip())
        elif said == _END_OF_FILE and self._drafts:
            self._drafts[-1].at_end = True
        elif said not in ("", _BEGIN):
            raise Malformed("is no header that is known")
        elif self._kind and not said:
            self._body(line)
        return True

    def close(self) -> None:
        """The change that was read last is whole."""
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

    def _head(self, kind: str, what: str, path: str) -> None:
        if (kind, what) == ("Move", "to"):
            if self._kind != "Update" or self._target:
                raise Malformed("moves no file that is being updated")
            self._target = path
            return
        if what != "File":
            raise Malformed("is no header that is known")
        self.close()
        self._kind, self._path, self._drafts = kind, path, []
        if kind == "Move":
            if (named := _MOVE.fullmatch(path)) is None:
                raise Malformed("does not say `old -> new`")
            self._kind, self._path, self._target = "Update", named[1], named[2]

    def _body(self, line: str) -> None:
        if line.startswith("@@") and self._kind == "Update":
            self._anchor(line[2:].strip().removesuffix("@@").strip())
            return
        if self._kind == "Delete":
            if line.strip():
                raise Malformed("stands below a file that is deleted")
            return
        if not self._drafts or self._drafts[-1].at_end:
            if not line.strip():
                return
            self._drafts.append(HunkDraft())
        if self._kind == "Add" and line[:1] not in ("", "+"):
            raise Malformed("has to begin with `+`, since the file is new")
        if not self._drafts[-1].take(line):
            raise Malformed("begins with none of space, `-`, `+` and `@@`")

    def _anchor(self, anchor: str) -> None:
        if not self._drafts or self._drafts[-1].lines:
            self._drafts.append(HunkDraft())
        if anchor:
            self._drafts[-1].anchors.append(anchor)
