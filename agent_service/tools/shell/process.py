"""The `process` tool: manages background commands."""

import asyncio
import time
from typing import Literal

from pydantic import Field

from agent_service.records.sandbox import CommandStatus, CommandUnknown, OutputPage, Stream
from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.shell.terminal import describe_exit

WAIT_LIMIT_S = 600
POLL_S = 0.2
DEFAULT_BYTES = 20_000
MAX_BYTES = 50_000
_MOST_OFFSET = 2**62
"""Larger than any output, and still fits the wire."""


class ProcessArguments(ToolArguments):
    """Manages commands that `terminal` started in the background.

    list: all of them. poll: state and newest output. log: output from an offset. wait: until it
    ends. kill: end it and all its children. write, submit: send it input; submit adds a newline.
    close: end its input.
    """

    action: Literal["list", "poll", "log", "wait", "kill", "write", "submit", "close"] = Field(
        description="What to do."
    )
    session_id: str = Field(
        default="", description="The id that `terminal` gave; not needed for list."
    )
    data: str = Field(default="", description="Input for write and submit.")
    timeout: float = Field(
        default=60, gt=0, le=WAIT_LIMIT_S, description="Maximum number of seconds for wait."
    )
    offset: int = Field(default=0, description="First byte for log; negative counts from the end.")
    limit: int = Field(
        default=DEFAULT_BYTES,
        ge=1,
        le=MAX_BYTES,
        description="Maximum number of bytes of output to return.",
    )


class Process(UsualTool[ProcessArguments]):
    """Manages background commands."""

    name = "process"
    toolset = "terminal"
    arguments = ProcessArguments

    def effect(self, arguments: ProcessArguments) -> Effect:
        """Input must not be sent twice; everything else may be repeated."""
        return Effect.UNSAFE if arguments.action in ("write", "submit", "close") else Effect.PURE

    def writes(self, arguments: ProcessArguments) -> frozenset[str]:
        """Actions on one process run in order."""
        return (
            frozenset({f"process {arguments.session_id}"}) if arguments.session_id else frozenset()
        )

    async def run(self, arguments: ProcessArguments, context: ToolContext) -> ToolResult:
        if arguments.action == "list":
            return _listed(await context.commands.list())
        if not arguments.session_id:
            raise RetryWithHint(f"{arguments.action} needs a session_id. Use list to see them.")
        try:
            return await self._of_one(arguments, context)
        except CommandUnknown:
            raise ToolFailed(
                f"There is no process {arguments.session_id}. Use list to see all processes."
            ) from None

    async def _of_one(self, arguments: ProcessArguments, context: ToolContext) -> ToolResult:
        key, commands = arguments.session_id, context.commands
        match arguments.action:
            case "kill":
                return await _described(context, await commands.kill(key), "")
            case "write" | "submit" | "close":
                newline = "\n" if arguments.action == "submit" else ""
                data = (arguments.data + newline).encode() if arguments.action != "close" else b""
                await commands.write(key, data, eof=arguments.action == "close")
                return ToolResult(f"{len(data)} bytes written.")
            case "wait":
                await _wait(context, key, arguments.timeout)
                return await _output(context, key, -arguments.limit, arguments.limit)
            case "log":
                return await _output(context, key, arguments.offset, arguments.limit)
            case _:
                return await _output(context, key, -arguments.limit, arguments.limit)


async def _wait(context: ToolContext, key: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        page = await context.commands.read(key, Stream.STDOUT, 0, 1)
        if page.status.exit is not None:
            return
        await asyncio.sleep(POLL_S)


async def _output(context: ToolContext, key: str, offset: int, limit: int) -> ToolResult:
    offset = max(-_MOST_OFFSET, min(offset, _MOST_OFFSET))
    out = await context.commands.read(key, Stream.STDOUT, offset, limit)
    err = await context.commands.read(key, Stream.STDERR, offset, limit)
    parts = [_page("output", out), _page("errors", err)]
    return await _described(context, out.status, "\n".join(part for part in parts if part))


def _page(name: str, page: OutputPage) -> str:
    if not page.total_bytes:
        return ""
    end = page.offset + len(page.data)
    text = page.data.decode(errors="replace").rstrip("\n")
    return f"{name}, bytes {page.offset} to {end} of {page.total_bytes}:\n{text}"


async def _described(context: ToolContext, status: CommandStatus, output: str) -> ToolResult:
    if status.exit is not None:
        await context.records.mark_seen(status.key)
    state = _state(status)
    return ToolResult(
        f"{state}\n{output}".rstrip(), exit_code=None if status.exit is None else status.exit.code
    )


def _state(status: CommandStatus) -> str:
    if status.exit is None:
        seconds = time.time() - status.started_at_ms / 1000
        return f"{status.key}: running for {seconds:.0f} s"
    return f"{status.key}: ended, {describe_exit(status.exit) or 'exit code 0'}"


def _listed(statuses: list[CommandStatus]) -> ToolResult:
    lines = [_state(status) for status in statuses]
    return ToolResult("\n".join(lines) or "There are no processes.")
