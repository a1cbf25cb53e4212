"""Refuses calls that a turn's user or kind does not allow.

A turn carries the slash commands that its user may not use; calls with the same effect are refused.
A turn that reviews another session may only save something from it.
"""

from collections.abc import Mapping

from agent_service.records.requests import REVIEW
from agent_service.records.turn_state import LiveTurn
from agent_service.tools.base import Tool, ToolArguments
from agent_service.tools.cronjob.cronjob import CronjobArguments
from agent_service.tools.memory import MemoryArguments
from agent_service.tools.session_search import SessionSearchArguments
from agent_service.tools.skills import SkillManageArguments, SkillsListArguments, SkillViewArguments

_OF_JOBS: Mapping[str, str] = {"create": "cron add", "update": "cron add"}
"""Other actions of `cronjob` are named like the command's verbs."""

_LOOKS_BACK_BY = frozenset({"memory", "skills"})
_PUTS_AWAY = frozenset({"archive", "delete"})

_ELSE = (
    "This call was not run. While you review a conversation, you can use only the tools for "
    "memory and for skills."
)
_PUT_AWAY = (
    "This was not done. While you review a conversation, you cannot archive skills. Improve the "
    "skill, or leave it as it is."
)
_DENIED = (
    "This was not done. Somebody whose message you work on may not use /{command} here, and you "
    "may not do the same for them. Do not try another way. Tell them that an admin of this Hermes "
    "can ask for it, or can give them permission."
)


def refused(turn: LiveTurn, tool: Tool[ToolArguments], arguments: ToolArguments) -> str:
    """Why a call is refused; empty if it is allowed."""
    if turn.kind == REVIEW:
        if tool.toolset not in _LOOKS_BACK_BY:
            return _ELSE
        if isinstance(arguments, SkillManageArguments) and arguments.action in _PUTS_AWAY:
            return _PUT_AWAY
    command = command_of(arguments)
    return _DENIED.format(command=command) if command in turn.options.denied_commands else ""


def command_of(arguments: ToolArguments) -> str:
    """The slash command with the same effect as a call; empty if there is none."""
    match arguments:
        case CronjobArguments(action=action):
            return _OF_JOBS.get(action, f"cron {action}")
        case SessionSearchArguments():
            return "sessions"
        case MemoryArguments():
            return "memory show"
        case SkillViewArguments():
            return "skills view"
        case SkillsListArguments() | SkillManageArguments():
            return "skills list"
        case _:
            return ""
