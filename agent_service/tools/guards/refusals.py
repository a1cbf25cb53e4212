"""Refuses calls because of the user that a turn works for, or because of the turn's kind.

The gateway knows who may use which slash command. A turn carries the commands that are denied to
its user, and this module says which call does the same as which command. A turn that reviews
another session may save something from it, and do nothing else.
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
"""Other actions of `cronjob` have the names of the command's verbs."""

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
    """Why a call of a turn is not run; empty where it may be."""
    if turn.kind == REVIEW:
        if tool.toolset not in _LOOKS_BACK_BY:
            return _ELSE
        if isinstance(arguments, SkillManageArguments) and arguments.action in _PUTS_AWAY:
            return _PUT_AWAY
    command = command_of(arguments)
    return _DENIED.format(command=command) if command in turn.options.denied_commands else ""


def command_of(arguments: ToolArguments) -> str:
    """The slash command that does the same as a call; empty where none does."""
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
