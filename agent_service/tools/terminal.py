"""The `terminal` tool: a command in the session's sandbox."""

import time

from pydantic import Field

from agent_service.sandbox import Command, CommandStatus, Exit, ExitReason
from agent_service.tools.base import Effect, RetryWithHint, ToolArguments, ToolContext, ToolResult
from agent_service.tools.output import CommandOutput

FOREGROUND_LIMIT_S = 600
BACKGROUND_LIMIT_S = 24 * 3600
TERMINAL_SIZE = (40, 120)

# The folder that a command ends in is where the next one starts. It is kept in the sandbox, since
# that is where it exists, and where nobody shares it: without isolation /tmp is the machine's.
# `eval` keeps the trap and gives syntax errors the command's own lines.
_SHELL = """\
d=${TMPDIR:-/tmp}/.hermes-cwd
trap "pwd >${d@Q}" EXIT
IFS= read -r d 2>/dev/null <"$d" && [ -z "$HERMES_WORKDIR" ] && cd -- "$d" 2>/dev/null
unset d HERMES_WORKDIR
eval "$1"
"""

_ENDED = {
    ExitReason.TIMEOUT: "It ran into its timeout and was killed with all its children.",
    ExitReason.CANCELLED: "It was cancelled and killed with all its children.",
    ExitReason.OOM: "It used more memory than the sandbox has, and was killed.",
    ExitReason.OUTPUT_LIMIT: "It wrote more than may be stored, and was killed.",
    ExitReason.DISK_QUOTA: "The workspace is full, and it was killed.",
    ExitReason.PIDS_LIMIT: "It started more processes than the sandbox may have, and was killed.",
    ExitReason.LEASE_EXPIRED: "The sandbox reached the end of its time.",
    ExitReason.SANDBOX_LOST: "The sandbox was lost; what the command did is not known.",
    ExitReason.EXECUTOR_RESTARTED: "The sandbox was lost; what the command did is not known.",
    ExitReason.UNKNOWN: "How it ended is not known.",
}


class TerminalArguments(ToolArguments):
    """Runs a shell command in this session's sandbox and returns its output.

    The folder that a command ends in is kept for the next one; variables are not. Long commands
    that need not be waited for, such as servers, go into the background: use `process` to read
    their output and to end them.
    """

    command: str = Field(min_length=1, description="The command, as typed into bash.")
    background: bool = Field(default=False, description="Return at once and leave it running.")
    timeout: float = Field(
        default=180,
        gt=0,
        description=(
            "Seconds after which it is killed, at most 600; in the background a day unless it is "
            "set."
        ),
    )
    workdir: str = Field(
        default="",
        description=(
            "Folder to run in, absolute or relative to /workspace; default is where the last ended."
        ),
    )
    pty: bool = Field(
        default=False, description="Give it a terminal, for programs that insist on one."
    )


class Terminal:
    """Runs commands."""

    name = "terminal"
    toolset = "terminal"
    arguments = TerminalArguments

    def effect(self, arguments: TerminalArguments) -> Effect:
        """A command is found again by its key."""
        return Effect.KEYED

    def writes(self, arguments: TerminalArguments) -> frozenset[str]:
        """Commands run side by side, as the model asked."""
        return frozenset()

    async def run(self, arguments: TerminalArguments, context: ToolContext) -> ToolResult:
        """Run the command, or start it in the background."""
        if arguments.background:
            limit_s = BACKGROUND_LIMIT_S
            if "timeout" in arguments.model_fields_set:
                limit_s = min(arguments.timeout, BACKGROUND_LIMIT_S)
            status = await context.commands.start(_command(arguments, context, limit_s))
            text = f"Started in the background. Its session_id for `process` is {status.key}."
            return ToolResult(text)
        if arguments.timeout > FOREGROUND_LIMIT_S:
            raise RetryWithHint(
                f"A command that is waited for may run {FOREGROUND_LIMIT_S} seconds at most; "
                "start it with background: true, and look after it with `process`."
            )
        output = CommandOutput(context.progress, time.monotonic)
        command = _command(arguments, context, arguments.timeout)
        return _result(await context.commands.run(command, output), output)


def _command(arguments: TerminalArguments, context: ToolContext, timeout_s: float) -> Command:
    return Command(
        key=context.key,
        argv=("bash", "-c", _SHELL, "bash", arguments.command),
        cwd=arguments.workdir,
        env={"HERMES_WORKDIR": "1"} if arguments.workdir else {},
        timeout_s=timeout_s,
        terminal=TERMINAL_SIZE if arguments.pty else None,
        background=arguments.background,
    )


def _result(status: CommandStatus, output: CommandOutput) -> ToolResult:
    ended = status.exit
    assert ended is not None, "a command that was followed to its end has ended"
    text = output.text(ended.stdout_bytes + ended.stderr_bytes)
    lines = [text.rstrip("\n")] if text else []
    note = describe_exit(ended)
    if note:
        lines.append(f"[{note}]")
    return ToolResult(
        "\n".join(lines) or "[no output]",
        is_error=ended.code != 0,
        exit_code=ended.code,
    )


def describe_exit(ended: Exit) -> str:
    """How a command ended, in words; empty when it simply succeeded."""
    if ended.reason is ExitReason.EXITED:
        note = f"exit code {ended.code}" if ended.code else ""
    elif ended.reason is ExitReason.SIGNALED:
        note = f"killed by signal {ended.signal}"
    else:
        note = _ENDED[ended.reason]
    if ended.survivor_count:
        note += f" {ended.survivor_count} of its processes could not be killed."
    return note.strip()
