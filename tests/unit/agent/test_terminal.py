"""What the terminal tool has a shell do around a command."""

import subprocess
from asyncio import to_thread
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_service.config.tools import TerminalConfig
from agent_service.records.sandbox import Command, CommandStatus, Exit, ExitReason
from agent_service.tools.base import ToolContext
from agent_service.tools.shell.terminal import Terminal, TerminalArguments


@dataclass(slots=True)
class Started:
    """Commands that are noted and not run."""

    commands: list[Command] = field(default_factory=list[Command])

    async def start(self, command: Command) -> CommandStatus:
        self.commands.append(command)
        return CommandStatus(command.key, 0, None)

    async def run(self, command: Command, _output: object) -> CommandStatus:
        self.commands.append(command)
        return CommandStatus(command.key, 0, Exit(ExitReason.EXITED, 0, 0, 0, 0, 0))


async def output(script: str, tmp: Path, workdir: str = "", cwd: str = "") -> str:
    """What a command says in a shell whose box keeps temporary files there."""
    started: Any = Started()
    unused: Any = None
    context = ToolContext("k", started, unused, unused, unused, unused, None, print)
    arguments = TerminalArguments(command=script, background=True, workdir=workdir)
    await Terminal(TerminalConfig(cwd=cwd)).run(arguments, context)
    (command,) = started.commands
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp), "HOME": str(tmp), **command.env}
    begins = workdir or "/"
    done = await to_thread(
        subprocess.run,
        command.argv,
        env=env,
        cwd=begins,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["plain", "a b'c $HOME"])
async def test_the_folder_is_kept_with_the_box_s_temporary_files(tmp_path: Path, name: str) -> None:
    tmp, other = tmp_path / name, tmp_path / "other"
    for folder in (tmp, other):
        await to_thread(folder.mkdir)
    assert await output("pwd; cd /usr; export TMPDIR=/nonexistent", tmp) == "/"
    assert await output("pwd; echo ${d-unset}", tmp) == "/usr\nunset"
    assert await output("pwd", other) == "/"
    assert await output("pwd; cd /var", tmp, workdir="/etc") == "/etc"
    assert await output("pwd", tmp) == "/usr", "a workdir is for one call"


@pytest.mark.parametrize("cwd", ["/usr/lib", "~", "~/a b"])
async def test_the_first_command_begins_where_it_is_configured_if_that_is_there(
    tmp_path: Path, cwd: str
) -> None:
    assert await output("pwd", tmp_path, cwd="/nonexistent") == "/"
    await to_thread((tmp_path / ".hermes-cwd").unlink)
    await to_thread((tmp_path / "a b").mkdir)
    begun = cwd.replace("~", str(tmp_path))
    assert await output("pwd; echo ${HERMES_CWD-unset}; cd /etc", tmp_path, cwd=cwd) == (
        f"{begun}\nunset"
    )
    assert await output("pwd", tmp_path, cwd=cwd) == "/etc"
    assert await output("pwd", tmp_path, workdir="/usr", cwd=cwd) == "/usr"


async def test_a_command_has_the_usual_time_unless_it_is_given_another() -> None:
    started: Any = Started()
    unused: Any = None
    context = ToolContext("k", started, unused, unused, unused, unused, None, print)
    for usual_s, given_s in ((42, None), (42, 180), (3000, None)):
        terminal = Terminal(TerminalConfig(timeout_s=usual_s))
        await terminal.run(TerminalArguments(command="true", timeout=given_s), context)
    assert [command.timeout_s for command in started.commands] == [42, 180, 600]
