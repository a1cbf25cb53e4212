"""Markdown for a terminal, rendered by rich while it arrives."""

import re
from collections.abc import Callable, Sequence

MOST_CODE_LINES = 100
"""How many lines of a block decide the colours of its next line."""

_ITEM = r"(?:[-*+]|\d{1,9}[.)]) +(?=\S)"
_ALONE = re.compile(r"#{1,6} |(?:[-*_] *){3,}$")
"""A block of one line."""
_BEGINS = re.compile(rf"{_ITEM}|#{{1,6}} |`{{3}}|~{{3}}")
"""What begins a block without an empty line before it."""
_IN_ITEM = re.compile(_ITEM)
_INDENT = re.compile(r"^ +", re.MULTILINE)
_SPACE = "\ue000"
"""Stands for a space that Markdown would drop or take for code."""
_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})")


class MarkdownStream:
    """Turns Markdown into styled rows, block by block; `pending` are the rows of the last block.

    Lines of code are shown as they are, however long, so that they can be copied.
    """

    def __init__(self, columns: Callable[[], int], *, colours: bool) -> None:
        self._columns = columns
        self._colours = colours
        self._held = ""
        """The last line, which has not ended."""
        self._block: list[str] = []
        self._fence = ""
        """The marks that end the code."""
        self._language: str | None = None
        """Of code that is shown line by line; None: the block is no such code."""
        self._code: list[str] = []
        self._has_begun = self._is_apart = False

    def feed(self, text: str) -> str:
        """Add text; return the rows of all blocks that it ends."""
        *lines, self._held = f"{self._held}{text}".split("\n")
        return "".join([self._take(line) for line in lines])

    def pending(self) -> str:
        """Return the rows of the block that has not ended, without a line end."""
        if self._language is not None:
            return self._highlight([self._held]) if self._held else ""
        block = "\n".join((*self._block, self._held))
        return self._render(block) if block.strip() else ""

    def finish(self) -> str:
        """End the text; return its last rows."""
        shown = self._take(self._held) + self._end() if self._held else self._end()
        self._held = self._fence = ""
        self._language = None
        self._code.clear()
        self._has_begun = self._is_apart = False
        return shown

    def _take(self, line: str) -> str:
        if self._language is not None:
            return self._take_code(line)
        if self._fence:
            if self._ends_code(line):
                self._fence = ""
            self._block.append(line)
            return ""
        if not line.strip():
            self._is_apart = True
            is_item = self._block and _IN_ITEM.match(self._block[0])
            return "" if is_item else self._end()
        shown = "" if self._goes_on(line) else self._end()
        if self._is_apart:
            if self._block:
                self._block.append("")
            elif self._has_begun:
                shown += "\n"
        self._has_begun, self._is_apart = True, False
        if fence := _FENCE.match(line):
            self._fence = fence[2]
            if not (fence[1] or self._block):
                self._language = line[fence.end() :].strip().partition(" ")[0]
                return shown
        self._block.append(line)
        return shown

    def _take_code(self, line: str) -> str:
        if self._ends_code(line):
            self._fence, self._language = "", None
            self._code.clear()
            return ""
        shown = self._highlight([line])
        self._code.append(line)
        del self._code[:-MOST_CODE_LINES]
        return f"{shown}\n"

    def _goes_on(self, line: str) -> bool:
        """Return whether a line belongs to the block before it."""
        if not self._block or _ALONE.match(self._block[0]):
            return False
        if line[0].isspace():
            return True
        return not self._is_apart and not _BEGINS.match(line)

    def _ends_code(self, line: str) -> bool:
        fence = _FENCE.match(line)
        return bool(fence and fence[2].startswith(self._fence) and not line[fence.end() :].strip())

    def _end(self) -> str:
        block, self._block = "\n".join(self._block), []
        return f"{self._render(block)}\n" if block else ""

    def _render(self, block: str) -> str:
        from services.cli.chat import renderer  # slow to import

        if not (_IN_ITEM.match(block) or "```" in block):
            block = _INDENT.sub(lambda indent: _SPACE * len(indent[0]), block)
        shown = renderer.markdown(block, max(1, self._columns()), colours=self._colours)
        return shown.replace(_SPACE, " ")

    def _highlight(self, lines: Sequence[str]) -> str:
        from services.cli.chat import renderer

        code, language = (*self._code, *lines), self._language or "text"
        shown = renderer.highlight("\n".join(code), language, colours=self._colours)
        return "\n".join(shown.split("\n")[len(self._code) :])
