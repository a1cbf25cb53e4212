"""The `patch` tool: edits parts of files."""

import asyncio
from collections.abc import Sequence
from typing import Literal

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
from agent_service.tools.patching.files import PatchedFiles
from agent_service.tools.patching.forms import FileChange, Malformed, read
from agent_service.tools.patching.matcher import NotThere, Unclear, replace
from agent_service.tools.patching.syntax import broken
from agent_service.tools.texts import MAX_FILE_BYTES, decode_text, diff, encode_text, same_file


class PatchArguments(ToolArguments):
    """Changes parts of files in the sandbox. It returns the diff, and the syntax errors that it
    caused.

    A patch can change several places and files: either all of it is applied, or nothing.
    """

    mode: Literal["replace", "patch"] = Field(
        description="replace: replace old_string with new_string in path. patch: apply patch."
    )
    path: str = Field(
        default="", description="For replace: the file, absolute or relative to /workspace."
    )
    old_string: str = Field(
        default="",
        description=(
            "The text to replace, exactly as in the file. It must occur only once. White space at "
            "the ends of whole lines, and the indentation of all lines together, may differ."
        ),
    )
    new_string: str = Field(default="", description="The text to put in its place.")
    replace_all: bool = Field(default=False, description="Replace every occurrence.")
    patch: str = Field(
        default="",
        description=(
            "For patch: a unified diff, or `*** Begin Patch`, then for each file `*** Update "
            "File: path` (followed by `*** Move to: path` if it moves), `*** Add File: path` or "
            "`*** Delete File: path`, then `*** End Patch`. An update has hunks. Each begins with "
            "a line `@@`, which can name a line above it, such as `@@ def main():`. In a hunk, a "
            "line begins with a space if it stays, `-` if it goes and `+` if it is new. Lines are "
            "found in the same way as old_string; line numbers may be wrong."
        ),
    )


def paths_of(arguments: PatchArguments) -> Sequence[str]:
    """The paths that a call names."""
    if arguments.mode == "replace":
        return (arguments.path,)
    return [path for change in _changes(arguments) for path in change.paths]


class Patch(UsualTool[PatchArguments]):
    """Edits files."""

    name = "patch"
    toolset = "file"
    arguments = PatchArguments
    usual_effect = Effect.UNSAFE
    """Applying the same change twice may have another effect."""

    def writes(self, arguments: PatchArguments) -> frozenset[str]:
        try:
            return frozenset(map(same_file, paths_of(arguments)))
        except Malformed:
            return frozenset()

    async def run(self, arguments: PatchArguments, context: ToolContext) -> ToolResult:
        if arguments.mode == "replace":
            return await _replaced(arguments, context)
        try:
            changes = await asyncio.to_thread(_changes, arguments)
        except Malformed as error:
            raise RetryWithHint(f"The patch cannot be read: {error}.") from None
        return await PatchedFiles(context.files).apply(changes)


def _changes(arguments: PatchArguments) -> list[FileChange]:
    if not arguments.patch.strip():
        raise Malformed("there is none")
    return read(arguments.patch)


async def _replaced(arguments: PatchArguments, context: ToolContext) -> ToolResult:
    path, old, new = arguments.path, arguments.old_string, arguments.new_string
    if not path or not old or "new_string" not in arguments.model_fields_set:
        raise RetryWithHint("replace needs path, old_string and new_string.")
    data = await context.files.read(path, MAX_FILE_BYTES)
    before, encoding = decode_text(path, data)
    try:
        after = await asyncio.to_thread(replace, before, old, new, arguments.replace_all)
    except NotThere as error:
        raise ToolFailed(
            f"old_string {error} in {path}. Read the file and copy the text exactly, "
            "including white space."
        ) from None
    except Unclear as error:
        raise RetryWithHint(
            f"old_string {error} in {path}. Include more lines around it, or set replace_all."
        ) from None
    await context.files.write(path, encode_text(path, after, encoding))
    return ToolResult(
        await asyncio.to_thread(diff, path, before, after) or "Nothing changed.",
        beside=await asyncio.to_thread(broken, path, before, after),
    )
