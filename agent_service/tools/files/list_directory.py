"""The `list_directory` tool: lists a folder."""

from pydantic import Field

from agent_service.records.sandbox import FileStat, PathRefused
from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolResult, UsualTool
from agent_service.tools.texts import shown_name

MAX_ENTRIES = 1000
MAX_DEPTH = 5


class ListDirectoryArguments(ToolArguments):
    """Lists a folder in the sandbox. Folders end with a slash; files have their size in bytes.

    Names with unusual characters are shown as JSON strings.
    """

    path: str = Field(default=".", description="The folder, absolute or relative to /workspace.")
    depth: int = Field(default=1, ge=1, le=MAX_DEPTH, description="How many levels to show.")


class ListDirectory(UsualTool[ListDirectoryArguments]):
    """Lists folders."""

    name = "list_directory"
    toolset = "file"
    arguments = ListDirectoryArguments
    usual_effect = Effect.PURE

    async def run(self, arguments: ListDirectoryArguments, context: ToolContext) -> ToolResult:
        lines: list[str] = []
        cut = await _list(context, arguments.path, arguments.depth, "", lines)
        if cut:
            lines.append(f"[cut at {MAX_ENTRIES} entries]")
        return ToolResult("\n".join(lines) or "[the folder is empty]")


async def _list(context: ToolContext, path: str, depth: int, indent: str, lines: list[str]) -> bool:
    entries, cut = await context.files.list(path, MAX_ENTRIES - len(lines))
    for entry in entries:
        if len(lines) >= MAX_ENTRIES:
            return True
        lines.append(f"{indent}{_render(entry)}")
        if entry.kind == "directory" and depth > 1 and len(lines) < MAX_ENTRIES:
            inside = f"{path.rstrip('/')}/{entry.path}"
            try:
                cut |= await _list(context, inside, depth - 1, f"{indent}  ", lines)
            except PathRefused as error:
                # It may be unreadable, gone by now, or have a name that cannot be sent.
                lines.append(f"{indent}  [not listed: {shown_name(str(error))}]")
    return cut


def _render(entry: FileStat) -> str:
    name = shown_name(entry.path)
    match entry.kind:
        case "directory":
            return f"{name}/"
        case "symlink":
            return f"{name}@"
        case "file":
            return f"{name}  {entry.size_bytes}"
        case _:
            return f"{name}  (special)"
