"""What a patch asks for: files that are added, changed, moved or removed, and by which hunks."""

from collections.abc import Sequence

from msgspec import Struct, field


class Malformed(Exception):
    """The patch cannot be read; says where and why."""


class Hunk(Struct, frozen=True):
    """Lines that stand together, each kept (` `), taken out (`-`) or put in (`+`)."""

    lines: tuple[tuple[str, str], ...]
    """Signs and texts."""
    anchors: tuple[str, ...] = ()
    """Lines that stand above it, the outermost first."""
    line: int = 0
    """Where it is said to begin, from 1; 0 where nothing is said."""
    at_end: bool = False
    """It is said to be the end of its file."""
    bare: frozenset[str] = frozenset()
    """Signs of lines that end the file without a line end."""

    @property
    def old(self) -> list[str]:
        """The lines that have to stand in the file."""
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that then stand there."""
        return [text for sign, text in self.lines if sign != "-"]


class FileChange(Struct, frozen=True):
    """What becomes of one file."""

    path: str
    hunks: tuple[Hunk, ...] = ()
    is_new: bool = False
    is_gone: bool = False
    target: str = ""
    """Where it is moved; empty where it stays."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The file, and where it goes."""
        return (self.path, self.target) if self.target else (self.path,)


class HunkDraft(Struct):
    """A hunk while it is read."""

    anchors: list[str] = field(default_factory=list[str])
    line: int = 0
    at_end: bool = False
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    bare: set[str] = field(default_factory=set[str])
    _loose: int = 0
    """Empty lines at its end, which may be the patch's own."""

    def take(self, line: str) -> bool:
        """Take a line; whether it is one of a hunk."""
        if line and line[0] not in " +-":
            return False
        self._loose = 0 if line else self._loose + 1
        self.lines.append((line[0], line[1:]) if line else (" ", ""))
        return True

    def end_bare(self) -> None:
        """The line that was taken last ends the file without a line end."""
        if self.lines:
            sign = self.lines[-1][0]
            self.bare |= {"+", "-"} if sign == " " else {sign}

    def done(self) -> list[Hunk]:
        """The hunk, unless there is none."""
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
