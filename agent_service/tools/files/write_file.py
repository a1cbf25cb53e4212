"""The `write_file` tool: writes a whole file."""

from pydantic import Field

from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolResult, UsualTool
from agent_service.tools.texts import lines_of, same_file
from services.amounts import plural


class WriteFileArguments(ToolArguments):
    """Writes a whole file in the sandbox. It replaces an existing file, and creates missing
    folders.

    To change part of a file, use `patch`.
    """

    path: str = Field(min_length=1, description="The file, absolute or relative to /workspace.")
    content: str = Field(description="The complete content of the file.")


class WriteFile(UsualTool[WriteFileArguments]):
    """Writes files."""

    name = "write_file"
    toolset = "file"
    arguments = WriteFileArguments
    usual_effect = Effect.PURE

    def writes(self, arguments: WriteFileArguments) -> frozenset[str]:
        return frozenset({same_file(arguments.path)})

    async def run(self, arguments: WriteFileArguments, context: ToolContext) -> ToolResult:
        data = arguments.content.encode()
        await context.files.write(arguments.path, data)
        lines = plural(len(lines_of(arguments.content)), "line")
        return ToolResult(f"Wrote {arguments.path}: {lines}, {plural(len(data), 'byte')}.")
