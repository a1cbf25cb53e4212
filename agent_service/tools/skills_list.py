"""The `skills_list` tool: which skills there are."""

from itertools import groupby

from pydantic import Field

from agent_service.profiles.skills.index import UNSORTED, one_line
from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolResult, UsualTool


class SkillsListArguments(ToolArguments):
    """Lists the skills that there are now, with what each is for. Load one with `skill_view`.

    The list in your instructions is that of the conversation's start; this one is newer and shows
    also what does not apply here.
    """

    category: str = Field(default="", description="Only this category; empty lists all.")


class SkillsList(UsualTool[SkillsListArguments]):
    """Lists skills."""

    name = "skills_list"
    toolset = "skills"
    arguments = SkillsListArguments
    usual_effect = Effect.PURE

    async def run(self, arguments: SkillsListArguments, context: ToolContext) -> ToolResult:
        """List them."""
        catalogue = await context.library.offered()
        wanted = arguments.category
        listed = [
            each for each in catalogue.skills if not wanted or wanted == (each.category or UNSORTED)
        ]
        lines: list[str] = []
        for category, members in groupby(listed, lambda skill: skill.category):
            about = one_line(catalogue.about(category))
            lines.append(f"{category or UNSORTED}:{' ' if about else ''}{about}")
            lines += [f"- {each.name}: {one_line(each.description)}" for each in members]
        where = f" in the category {wanted!r}" if wanted else ""
        return ToolResult("\n".join(lines) or f"There are no skills{where}.")
