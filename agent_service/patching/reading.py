"""Tells of which form a patch is, and reads it."""

from agent_service.patching import envelope, unified
from agent_service.patching.changes import FileChange, Malformed

_NEITHER = (
    "it is of neither form: begin it with `*** Begin Patch` and `*** Update File: path`, or with "
    "the `---` and `+++` lines of a unified diff, followed by `@@`"
)


def read(text: str) -> list[FileChange]:
    """The changes of a patch, in their order; Malformed where there are none."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].startswith("```"):
        lines = lines[1:]
        if "```" in lines:
            lines = lines[: len(lines) - 1 - lines[::-1].index("```")]
    for at, line in enumerate(lines):
        if envelope.is_header(line):
            return envelope.read(lines)
        if unified.is_header(lines, at):
            return unified.read(lines)
    raise Malformed(_NEITHER)
