"""The settings of commands that models run."""

from typing import Annotated

from pydantic import AfterValidator, Field

from services.config import ConfigModel, Yaml


def _folder(given: str) -> str:
    """`.` is the workspace, and never the folder that a program was started in."""
    return "" if given.strip() in (".", "./") else given.strip()


class TerminalConfig(ConfigModel):
    """How the `terminal` tool runs commands where the model says nothing else."""

    timeout_s: Annotated[float, Field(gt=0, le=86_400), Yaml("terminal.timeout")] = 180.0
    """Seconds after which a command that is waited for is killed, where the model gives no other
    time; more than 600 counts as 600. Sessions keep what they began with."""
    cwd: Annotated[str, AfterValidator(_folder), Yaml("terminal.cwd")] = ""
    """Folder that the first command of a sandbox begins in, where it is there: of the sandbox, or
    of the machine where nothing is isolated; relative to the workspace, which `.` is."""
