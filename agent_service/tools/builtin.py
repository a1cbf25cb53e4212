"""THE list of tools."""

from collections.abc import Sequence
from typing import Any

from agent_service.tools.approval import RequireApproval
from agent_service.tools.base import Tool
from agent_service.tools.terminal import Terminal, TerminalArguments


def builtin_tools(*, ask_before_commands: bool) -> Sequence[Tool[Any]]:
    """Every tool, in the order in which the model sees them."""
    terminal = Terminal()
    asked = RequireApproval(terminal, _command)
    return (asked if ask_before_commands else terminal,)


def _command(arguments: TerminalArguments) -> str:
    return arguments.command
