"""The `terminal` tool: runs a command in the session's sandbox."""

import re
import time
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from agent_service.config.tools import TerminalConfig
from agent_service.records.background import WatchRequest
from agent_service.records.sandbox import (
    NO_ISOLATION,
    Command,
    CommandStatus,
    Exit,
    ExitReason,
    PathRefused,
    SandboxUnavailable,
)
from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolResult,
    UsualTool,
)
from agent_service.tools.output import CommandOutput

NAME = "terminal"
FOREGROUND_LIMIT_S = 600
BACKGROUND_LIMIT_S = 24 * 3600
TERMINAL_SIZE = (40, 120)
MAX_PATTERNS = 10
MAX_PATTERN_CHARS = 200
MAX_PATH_BYTES = 4096
NOBODY = frozenset({"scheduler", "subagent"})
"""Platforms of sessions that nobody watches after the turn has ended."""

# Each command starts in the folder where the last one ended, as stored inside the sandbox; /tmp is
# shared without isolation. `eval` keeps the trap and the line numbers of syntax errors.
_SHELL = """\
d=${TMPDIR:-/tmp}/.hermes-cwd
[ -n "$HERMES_WORKDIR" ] || trap "pwd >${d@Q}" EXIT
[ -n "$HERMES_WORKDIR" ] ||
  { IFS= read -r d 2>/dev/null <"$d" && cd -- "$d" 2>/dev/null; } ||
  { [ -n "$HERMES_CWD" ] && cd -- "${HERMES_CWD/#"~/"/$HOME/}" 2>/dev/null; }
unset d HERMES_WORKDIR HERMES_CWD
eval "$1"
"""

_KEPT = "/tmp/.hermes-cwd"  # noqa: S108 - the box's own
_MOVES = re.compile(r"\b(?:cd|pushd|popd)\b")

_ENDED = {
    ExitReason.TIMEOUT: "It reached its timeout and was killed with all its children.",
    ExitReason.CANCELLED: "It was cancelled and killed with all its children.",
    ExitReason.OOM: "It ran out of memory and was killed.",
    ExitReason.DISK_QUOTA: "The workspace is full, so it was killed.",
    ExitReason.PIDS_LIMIT: "It started more processes than the sandbox allows, and was killed.",
    ExitReason.LEASE_EXPIRED: "The sandbox reached the end of its time.",
    ExitReason.SANDBOX_LOST: "The sandbox was lost. It is unknown what the command did.",
    ExitReason.EXECUTOR_RESTARTED: "The sandbox was lost. It is unknown what the command did.",
    ExitReason.UNKNOWN: "It is unknown how it ended.",
}


class TerminalArguments(ToolArguments):
    """Runs a shell command in this session's sandbox and returns its output.

    The next command starts in the folder in which this one ends, unless this one has a workdir;
    variables are not kept. Run commands that you need not wait for, such as servers, in the
    background. Use `process` to read their output and to end them.
    """

    command: str = Field(min_length=1, description="The command, as typed into bash.")
    background: bool = Field(
        default=False, description="Return at once and keep the command running."
    )
    timeout: float | None = Field(
        default=None,
        gt=0,
        description=(
            "Seconds after which the command is killed, at most 600; the default is usually 180, "
            "and a day in the background."
        ),
    )
    workdir: str = Field(
        default="",
        description=(
            "Folder to run only this command in, absolute or relative to /workspace; default is "
            "where the last command without it ended."
        ),
    )
    pty: bool = Field(
        default=False, description="Run it in a terminal, for programs that need one."
    )
    notify_on_complete: bool = Field(
        default=False,
        description=("In the background: you are notified when it ends, so do not wait for it."),
    )
    watch_patterns: list[Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARS)]] = Field(
        default=[],
        max_length=MAX_PATTERNS,
        description=(
            "In the background: you are notified of lines of output that contain one of these "
            "texts, at most every 30 seconds and 20 times."
        ),
    )


class Terminal(UsualTool[TerminalArguments]):
    """Runs commands."""

    name = NAME
    toolset = "terminal"
    arguments = TerminalArguments
    usual_effect = Effect.KEYED
    """A command is found again by its key."""

    def __init__(self, config: TerminalConfig | None = None) -> None:
        config = config or TerminalConfig()
        self._timeout_s = min(config.timeout_s, FOREGROUND_LIMIT_S)
        self._cwd = "~/" if config.cwd == "~" else config.cwd

    async def run(self, arguments: TerminalArguments, context: ToolContext) -> ToolResult:
        if arguments.background:
            return await _in_background(arguments, context, self._cwd)
        if arguments.notify_on_complete or arguments.watch_patterns:
            raise RetryWithHint("notify_on_complete and watch_patterns need background: true.")
        timeout_s = arguments.timeout or self._timeout_s
        if timeout_s > FOREGROUND_LIMIT_S:
            raise RetryWithHint(
                f"Without background: true, a command can run for at most {FOREGROUND_LIMIT_S} "
                "seconds. Start it in the background, and follow it with `process`."
            )
        output = CommandOutput(context.progress, time.monotonic)
        command = _command(arguments, context, timeout_s, self._cwd)
        return _result(await context.commands.run(command, output), output)


async def folders_of(arguments: TerminalArguments, context: ToolContext) -> Sequence[str]:
    """The folders that a finished command started and ended in, as far as known."""
    if arguments.workdir:
        return (arguments.workdir,)
    is_kept = context.place().isolation != NO_ISOLATION
    if arguments.background or not is_kept or not _MOVES.search(arguments.command):
        return ()
    try:
        kept = await context.files.read(_KEPT, MAX_PATH_BYTES)
    except (PathRefused, SandboxUnavailable):
        return ()
    return (kept.decode(errors="replace").removesuffix("\n"),)


async def _in_background(
    arguments: TerminalArguments, context: ToolContext, cwd: str
) -> ToolResult:
    wanted = WatchRequest(arguments.notify_on_complete, tuple(arguments.watch_patterns))
    is_watched = wanted.end or bool(wanted.patterns)
    if is_watched and context.caller.origin.get("platform") in NOBODY:
        raise RetryWithHint(
            "Nobody can be notified once this work has ended. Start the command without "
            "notify_on_complete and watch_patterns, and wait for it with `process`."
        )
    limit_s = min(arguments.timeout or BACKGROUND_LIMIT_S, BACKGROUND_LIMIT_S)
    status = await context.commands.start(_command(arguments, context, limit_s, cwd))
    text = f"Started in the background. Its session_id for `process` is {status.key}."
    if is_watched:
        await context.records.watch(status.key, arguments.command, wanted)
        text += " You will be notified."
    return ToolResult(text)


def _command(
    arguments: TerminalArguments, context: ToolContext, timeout_s: float, cwd: str
) -> Command:
    beginning = {"HERMES_CWD": cwd} if cwd else {}
    return Command(
        key=context.key,
        argv=("bash", "-c", _SHELL, "bash", arguments.command),
        cwd=arguments.workdir,
        env={"HERMES_WORKDIR": "1"} if arguments.workdir else beginning,
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
        "\n".join(lines) or "[no output]", is_error=ended.code != 0, exit_code=ended.code
    )


def describe_exit(ended: Exit) -> str:
    """How a command ended, in words; empty if it succeeded."""
    if ended.reason is ExitReason.EXITED:
        note = f"exit code {ended.code}" if ended.code else ""
    elif ended.reason is ExitReason.SIGNALED:
        note = f"killed by signal {ended.signal}"
    else:
        note = _ENDED[ended.reason]
    if ended.survivor_count:
        note += f" {ended.survivor_count} of its processes could not be killed."
    return note.strip()
