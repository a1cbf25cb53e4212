"""What a turn may do that looks back at another session: keep something of it, and nothing else."""

from agent_service.live_turn import LiveTurn
from agent_service.requests import REVIEW
from agent_service.tools.base import Tool, ToolArguments
from agent_service.tools.skill_manage import SkillManageArguments

TOOLSETS = frozenset({"memory", "skills"})

_ELSE = (
    "It was not run: looking back at a conversation, you can only use the tools for memory and for "
    "skills."
)
_PUT_AWAY = (
    "It was not done: looking back at a conversation, you put no skill away. Improve it, or leave "
    "it as it is."
)


def refused(turn: LiveTurn, tool: Tool[ToolArguments], arguments: ToolArguments) -> str:
    """Why a call of a turn is not run; empty where it may be."""
    if turn.kind != REVIEW:
        return ""
    if tool.toolset not in TOOLSETS:
        return _ELSE
    puts_away = isinstance(arguments, SkillManageArguments) and arguments.action in (
        "archive",
        "delete",
    )
    return _PUT_AWAY if puts_away else ""
