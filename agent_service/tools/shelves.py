"""What the skill tools share."""

from agent_service.skills.shelf import ProfileSkills
from agent_service.tools.base import ToolContext, ToolFailed


def skills_of(context: ToolContext) -> ProfileSkills:
    """The caller's library."""
    if context.skills is None:
        raise ToolFailed("There is no library of skills here.")
    return context.skills
