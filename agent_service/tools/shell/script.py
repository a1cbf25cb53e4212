"""The script of a turn: judged and run as a command is, but no model can call it."""

from pydantic import Field

from agent_service.records.calls import SCRIPT
from agent_service.records.sandbox import Command, Stream
from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolResult, UsualTool
from agent_service.tools.output import OutputWindow
from agent_service.tools.shell.terminal import describe_exit

SHOWN_ERROR_CHARS = 2000
"""Of what it has printed last, where it has failed."""


class ScriptArguments(ToolArguments):
    """A script that bash runs in the session's sandbox."""

    command: str = Field(min_length=1)


class ScriptTool(UsualTool[ScriptArguments]):
    """Runs scripts; what they print on standard output is the result."""

    name = SCRIPT
    toolset = "terminal"
    arguments = ScriptArguments
    usual_effect = Effect.KEYED
    """A command is found again by its key."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    async def run(self, arguments: ScriptArguments, context: ToolContext) -> ToolResult:
        """Run it to its end; where it fails, `beside` says how, and what it has printed last."""
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
