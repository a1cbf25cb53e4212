"""Calls that do what a slash command does, for somebody who may not say that command.

Who may say what is the gateway's to know: a turn comes with the commands that are denied to whoever
speaks. Here is which call is which command.
"""

from collections.abc import Mapping

from agent_service.live_turn import LiveTurn
from agent_service.tools.base import ToolArguments
from agent_service.tools.cronjob import CronjobArguments
from agent_service.tools.memory import MemoryArguments
from agent_service.tools.session_search import SessionSearchArguments
from agent_service.tools.skill_manage import SkillManageArguments
from agent_service.tools.skill_view import SkillViewArguments
from agent_service.tools.skills_list import SkillsListArguments

_OF_JOBS: Mapping[str, str] = {"create": "cron add", "update": "cron add"}
"""Other actions of `cronjob` have the names of the command's verbs."""

_DENIED = (
    "This was not done: somebody whose words you work on may not say /{command} here, and what it "
    "does is not done for them in other words either. Do not try it in another way. Tell them; an "
    "admin of this Hermes can ask for it in a message of their own, or allow it to them."
)


def denied(turn: LiveTurn, arguments: ToolArguments) -> str:
    """Why a call of a turn is not run; empty where it may be."""
    command = command_of(arguments)
    return _DENIED.format(command=command) if command in turn.denied else ""


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
