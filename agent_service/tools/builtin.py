"""THE list of tools."""

from collections.abc import Sequence
from typing import Any

from agent_service.memory.store import MemoryStore
from agent_service.tools.approval import RequireApproval
from agent_service.tools.base import Tool
from agent_service.tools.list_directory import ListDirectory
from agent_service.tools.memory import MemoryTool
from agent_service.tools.patch import Patch
from agent_service.tools.process import Process
from agent_service.tools.read_file import ReadFile
from agent_service.tools.search_files import SearchFiles
from agent_service.tools.skill_manage import SkillManage
from agent_service.tools.skill_view import SkillView
from agent_service.tools.skills_list import SkillsList
from agent_service.tools.terminal import Terminal, TerminalArguments
from agent_service.tools.todo import Todo
from agent_service.tools.write_file import WriteFile


def builtin_tools(
    *, ask_before_commands: bool, memories: MemoryStore | None = None
) -> Sequence[Tool[Any]]:
    """Every tool, in the order in which the model sees them; that of memory where there is one."""
    terminal: Tool[TerminalArguments] = Terminal()
    return (
        RequireApproval(terminal, _command) if ask_before_commands else terminal,
        Process(),
        ReadFile(),
        WriteFile(),
        Patch(),
        SearchFiles(),
        ListDirectory(),
        Todo(),
        *(() if memories is None else (MemoryTool(memories),)),
        SkillsList(),
        SkillView(),
        SkillManage(),
    )


def _command(arguments: TerminalArguments) -> str:
    return arguments.command
