"""The `skill_view` tool: what a skill says."""

from pydantic import Field

from agent_service.profiles.skills.document import BadSkill
from agent_service.profiles.skills.files import FileRefused
from agent_service.profiles.skills.shelf import LOADED
from agent_service.profiles.skills.views import view
from agent_service.tools.base import (
    Effect,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)


class SkillViewArguments(ToolArguments):
    """Loads a skill: its instructions, and the names of its files. With file_path one of these.

    Load a skill before you do what it is for, and follow it.
    """

    name: str = Field(min_length=1, description="The skill, by its name or as category/name.")
    file_path: str = Field(
        default="", description="One of its files, such as references/api.md; empty is SKILL.md."
    )


class SkillView(UsualTool[SkillViewArguments]):
    """Shows skills, and counts that they were read."""

    name = "skill_view"
    toolset = "skills"
    arguments = SkillViewArguments
    usual_effect = Effect.PURE
    """Reading again changes nothing but a count."""
    usual_writes = frozenset({"skills"})
    """Nothing, but a change by the same message comes wholly before it or after."""

    async def run(self, arguments: SkillViewArguments, context: ToolContext) -> ToolResult:
        """Show it."""
        try:
            skills = context.library
            skill = await skills.find(arguments.name)
            seen = await view(skills, skill, arguments.file_path, is_placed=True)
            await skills.viewed(skill.name)
            if skill.files:
                await context.state.add(LOADED, skill.folder)
        except (BadSkill, FileRefused) as error:
            raise ToolFailed(str(error)) from None
        return ToolResult(seen.text, beside=seen.warning)
