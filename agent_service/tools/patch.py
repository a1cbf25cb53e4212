"""The `patch` tool: a change to a part of a file."""

import asyncio
from typing import Literal

from pydantic import Field

from agent_service.patching.matching import NotThere, Unclear, replace
from agent_service.patching.syntax import broken
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
    """Changes a part of a file of the sandbox, and returns the diff and what it broke."""

    mode: Literal["replace"] = Field(
        description="replace: put new_string in the place of old_string."
    )
    path: str = Field(min_length=1, description="The file, absolute or relative to /workspace.")
    old_string: str = Field(
        min_length=1,
        description=(
            "The text to replace, exactly as it stands in the file; it must be there only once. "
            "White space at the ends of whole lines, and by how much all are indented, may differ."
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
        try:
            after = await asyncio.to_thread(
                replace, before, arguments.old_string, arguments.new_string, arguments.replace_all
            )
        except NotThere as error:
            raise ToolFailed(
                f"old_string {error} in {path}; read the file and copy it exactly, "
                "white space included."
            ) from None
        except Unclear as error:
            raise RetryWithHint(
                f"old_string {error} in {path}; take more of the lines around it, "
                "or set replace_all."
            ) from None
        await context.files.write(path, encode_text(path, after, encoding))
        return ToolResult(
            await asyncio.to_thread(diff, path, before, after) or "Nothing changed.",
            beside=await asyncio.to_thread(broken, path, before, after),
        )
