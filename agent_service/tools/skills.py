"""The `skills_list`, `skill_view` and `skill_manage` tools."""

from typing import Literal

from pydantic import Field

from agent_service.profiles.skills.changes import Action, SkillChangeRequest
from agent_service.profiles.skills.document import BadSkill
from agent_service.profiles.skills.files import FileRefused
from agent_service.profiles.skills.index import UNSORTED, listing
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


class SkillsListArguments(ToolArguments):
    """Lists the skills that you have now, with what each is for. Load one with `skill_view`.

    The list in your instructions is from the start of the conversation. This one is current, and
    also shows skills that do not apply here.
    """

    category: str = Field(default="", description="Only this category; empty lists all.")


class SkillsList(UsualTool[SkillsListArguments]):
    """Lists skills."""

    name = "skills_list"
    toolset = "skills"
    arguments = SkillsListArguments
    usual_effect = Effect.PURE

    async def run(self, arguments: SkillsListArguments, context: ToolContext) -> ToolResult:
        catalogue = await context.library.offered()
        wanted = arguments.category
        listed = [
            each for each in catalogue.skills if not wanted or wanted == (each.category or UNSORTED)
        ]
        where = f" in the category {wanted!r}" if wanted else ""
        return ToolResult("\n".join(listing(catalogue, listed)) or f"There are no skills{where}.")


class SkillViewArguments(ToolArguments):
    """Loads a skill: its instructions, and the names of its files. With file_path, it shows that
    file.

    Load a skill before you do what it is for, and follow it.
    """

    name: str = Field(min_length=1, description="The skill, by its name or as category/name.")
    file_path: str = Field(
        default="", description="One of its files, such as references/api.md; empty is SKILL.md."
    )


class SkillView(UsualTool[SkillViewArguments]):
    """Shows skills, and counts each reading."""

    name = "skill_view"
    toolset = "skills"
    arguments = SkillViewArguments
    usual_effect = Effect.PURE
    """Reading again changes only a count."""
    usual_writes = frozenset({"skills"})
    """Changes by the same message must come wholly before or after the reading."""

    async def run(self, arguments: SkillViewArguments, context: ToolContext) -> ToolResult:
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


class SkillManageArguments(ToolArguments):
    """Changes the library of skills that later conversations start with.

    create: a new skill; content is its whole SKILL.md: frontmatter between two lines of --- with
    name and description, then the instructions. patch: replace old_string with new_string in
    SKILL.md or in file_path. edit: content is the whole new SKILL.md. write_file, remove_file: a
    file of the skill in references/, templates/, scripts/ or assets/. archive (or delete): put a
    skill away; it can be restored.

    Name a skill after a kind of work, never after one occasion. Prefer to improve an existing
    skill. You cannot change skills that came with Hermes or from a hub, or that the user has
    pinned.
    """

    action: Literal["create", "patch", "edit", "write_file", "remove_file", "archive", "delete"] = (
        Field(description="What to do; delete archives.")
    )
    name: str = Field(
        min_length=1, description="The skill: a-z, 0-9 and single hyphens, at most 64 characters."
    )
    content: str = Field(default="", description="The whole SKILL.md, for create and edit.")
    old_string: str = Field(
        default="", description="The text that patch replaces, exactly as in the file."
    )
    new_string: str = Field(default="", description="The text that patch puts in its place.")
    replace_all: bool = Field(default=False, description="Let patch replace every occurrence.")
    category: str = Field(
        default="", description="The folder that create puts the skill into; empty is none."
    )
    file_path: str = Field(
        default="", description="The file, such as references/api.md; empty is SKILL.md for patch."
    )
    file_content: str | None = Field(
        default=None, description="The complete content of the file, for write_file."
    )
    absorbed_into: str = Field(
        default="", description="The skill that now covers the archived one, if any."
    )


class SkillManage(UsualTool[SkillManageArguments]):
    """Changes skills."""

    name = "skill_manage"
    toolset = "skills"
    arguments = SkillManageArguments
    usual_effect = Effect.KEYED
    """A repeated change is recognized by the call's key."""
    usual_writes = frozenset({"skills"})
    """Changes of the library run one after the other."""

    async def run(self, arguments: SkillManageArguments, context: ToolContext) -> ToolResult:
        asked = arguments.action
        wanted = SkillChangeRequest(
            action=Action.ARCHIVE if asked == "delete" else Action(asked),
            **arguments.model_dump(exclude={"action"}),
        )
        try:
            return ToolResult(await context.library.manage(context.key, wanted, context.state))
        except (BadSkill, FileRefused) as error:
            raise ToolFailed(str(error)) from None
