"""The `read_file` tool: the text of a file, with line numbers."""

from pydantic import Field

from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.documents.reader import TEXTUAL, Documents, NoDocument, kind_of, named_kind
from agent_service.tools.output import RESULT_CHARS
from agent_service.tools.texts import MAX_FILE_BYTES, decode_text, lines_of, same_file

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
MAX_LINES = 2000
MAX_LINE_CHARS = 2000
MAX_RESULT_CHARS = RESULT_CHARS - 1_000
"""Leaves room for the notes beside the text."""


class ReadFileArguments(ToolArguments):
    """Reads a text file in the sandbox. Each line is shown as `number|text`.

    PDF, Word (.docx), Excel (.xlsx) and Jupyter (.ipynb) files are shown as text, line by line.
    """

    path: str = Field(min_length=1, description="The file, absolute or relative to /workspace.")
    offset: int = Field(default=1, ge=1, description="First line to read, counted from 1.")
    limit: int = Field(default=500, ge=1, le=MAX_LINES, description="Maximum number of lines.")


class ReadFile(UsualTool[ReadFileArguments]):
    """Reads text files."""

    name = "read_file"
    toolset = "file"
    arguments = ReadFileArguments
    usual_effect = Effect.PURE

    def __init__(self) -> None:
        self._documents = Documents()

    def writes(self, arguments: ReadFileArguments) -> frozenset[str]:
        """Wait for an earlier change to the same file."""
        return frozenset({same_file(arguments.path)})

    async def run(self, arguments: ReadFileArguments, context: ToolContext) -> ToolResult:
        path = arguments.path
        lines, note = await self._lines(path, context)
        first = arguments.offset - 1
        if first and first >= len(lines):
            raise RetryWithHint(f"{path} has {len(lines)} lines.")
        shown = _numbered(lines[first : first + arguments.limit], arguments.offset)
        last = first + len(shown)
        if last < len(lines):
            shown.append(f"[{len(lines) - last} more lines; continue with offset {last + 1}]")
        elif note:
            shown.append(f"[{note}]")
        return ToolResult("\n".join(shown) or "[the file is empty]")

    async def _lines(self, path: str, context: ToolContext) -> tuple[list[str], str]:
        kind, note = named_kind(path), ""
        data = await context.files.read(path, MAX_DOCUMENT_BYTES if kind else MAX_FILE_BYTES)
        if kind := kind_of(path, data):
            try:
                document = await self._documents.read(kind, data)
            except NoDocument as error:
                if kind != TEXTUAL:
                    raise ToolFailed(f"{path} cannot be read: {error}.") from None
                note = f"shown as raw text: {error}"
            else:
                cut = f"the document continues, but {document.cut}"
                return document.lines, cut if document.cut else ""
        if len(data) > MAX_FILE_BYTES:
            raise ToolFailed(f"{path} is longer than {MAX_FILE_BYTES:,} bytes.")
        return lines_of(decode_text(path, data)[0]), note


def _numbered(lines: list[str], first: int) -> list[str]:
    shown: list[str] = []
    room = MAX_RESULT_CHARS
    for number, line in enumerate(lines, first):
        entry = f"{number}|{_cut(line)}"
        room -= len(entry) + 1
        if room < 0:
            break
        shown.append(entry)
    return shown


def _cut(line: str) -> str:
    if len(line) <= MAX_LINE_CHARS:
        return line
    return f"{line[:MAX_LINE_CHARS]}[… {len(line) - MAX_LINE_CHARS} characters]"
