"""The guide's tool: how many lines, words and bytes a file has."""

from pydantic import Field

from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolResult


class CountWordsArguments(ToolArguments):
    """Counts the lines, words and bytes of a file of the sandbox."""

    path: str = Field(description="The file, absolute or relative to /workspace.")


class CountWords:
    """Counts words."""

    name = "count_words"
    toolset = "file"
    arguments = CountWordsArguments

    def effect(self, arguments: CountWordsArguments) -> Effect:
        """After a crash it is done again, which changes nothing."""
        return Effect.PURE

    def writes(self, arguments: CountWordsArguments) -> frozenset[str]:
        """It waits for calls that change the same file."""
        return frozenset({arguments.path})

    async def run(self, arguments: CountWordsArguments, context: ToolContext) -> ToolResult:
        """Count."""
        data = await context.files.read(arguments.path, max_bytes=1_000_000)
        lines, words = data.count(b"\n"), len(data.split())
        return ToolResult(f"{lines} lines, {words} words, {len(data)} bytes")
