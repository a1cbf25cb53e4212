"""The `patch` tool: a change to a part of a file."""

from typing import Literal

from pydantic import Field

from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
)
from agent_service.tools.texts import MAX_FILE_BYTES, decode_text, diff, encode_text


class PatchArguments(ToolArguments):
    """Changes a part of a file of the sandbox and returns the diff."""

    mode: Literal["replace"] = Field(
        description="replace: put new_string in the place of old_string."
    )
    path: str = Field(min_length=1, description="The file, absolute or relative to /workspace.")
    old_string: str = Field(
        min_length=1,
        description=(
            "The text to replace, exactly as it stands in the file; it must be there only once."
        ),
    )
    new_string: str = Field(description="The text to put there.")
    replace_all: bool = Field(default=False, description="Replace every occurrence.")


class Patch:
    """Changes files."""

    name = "patch"
    toolset = "file"
    arguments = PatchArguments

    def effect(self, arguments: PatchArguments) -> Effect:
        """The same change twice is another change."""
        return Effect.UNSAFE

    def writes(self, arguments: PatchArguments) -> frozenset[str]:
        """The file."""
        return frozenset({arguments.path})

    async def run(self, arguments: PatchArguments, context: ToolContext) -> ToolResult:
        """Change it."""
        path = arguments.path
        data = await context.files.read(path, MAX_FILE_BYTES)
        before, encoding = decode_text(path, data)
        count = before.count(arguments.old_string)
        if count == 0:
            raise ToolFailed(
                f"old_string does not stand in {path}; read the file and copy it exactly, "
                "white space included."
            )
        if count > 1 and not arguments.replace_all:
            raise RetryWithHint(
                f"old_string stands in {path} {count} times; take more of the lines around it, "
                "or set replace_all."
            )
        after = before.replace(arguments.old_string, arguments.new_string)
        await context.files.write(path, encode_text(path, after, encoding))
        return ToolResult(diff(path, before, after) or "Nothing changed.")
