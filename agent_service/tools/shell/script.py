"""Runs a turn's script with the checks of commands; the model cannot call it."""

from pydantic import Field

from agent_service.records.calls import SCRIPT
from agent_service.records.sandbox import Command, Stream
from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolResult, UsualTool
from agent_service.tools.output import OutputWindow
from agent_service.tools.shell.terminal import describe_exit

SHOWN_ERROR_CHARS = 2000
"""How much of the last output of a failed script is shown."""


class ScriptArguments(ToolArguments):
    """A script that bash runs in the session's sandbox."""

    command: str = Field(min_length=1)


class ScriptTool(UsualTool[ScriptArguments]):
    """Runs scripts; the result is their standard output."""

    name = SCRIPT
    toolset = "terminal"
    arguments = ScriptArguments
    usual_effect = Effect.KEYED

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    async def run(self, arguments: ScriptArguments, context: ToolContext) -> ToolResult:
        """Run the script; if it fails, `beside` has the exit status and the last output."""
        printed = {Stream.STDOUT: OutputWindow(), Stream.STDERR: OutputWindow()}
        command = Command(
            key=context.key,
            argv=("bash", "-c", arguments.command, SCRIPT),
            timeout_s=self._timeout_s,
        )
        status = await context.commands.run(command, lambda to, data: printed[to].add(data))
        ended = status.exit
        assert ended is not None, "a command that was followed to its end has ended"
        output = printed[Stream.STDOUT].text(ended.stdout_bytes)
        if ended.code == 0:
            return ToolResult(output, exit_code=0)
        complaint = printed[Stream.STDERR].text(ended.stderr_bytes).strip() or output.strip()
        told = (describe_exit(ended), complaint[-SHOWN_ERROR_CHARS:])
        return ToolResult(
            output, is_error=True, exit_code=ended.code, beside="\n".join(filter(None, told))
        )
