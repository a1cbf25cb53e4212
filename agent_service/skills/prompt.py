"""The index of skills as a new session's prompt has it."""

import logging
from collections.abc import Iterable
from typing import Any

from agent_service.skills.document import BadSkill, Surroundings
from agent_service.skills.files import FileRefused
from agent_service.skills.index import SkillIndex
from agent_service.skills.shelf import SkillShelves
from agent_service.tools.base import Tool

TOOLSET = "skills"

_log = logging.getLogger(__name__)


class SkillIndexes:
    """Makes the index for a session, which never changes while the session lasts."""

    def __init__(self, shelves: SkillShelves, tools: Iterable[Tool[Any]]) -> None:
        self._shelves = shelves
        self._tools = {tool.name: tool.toolset for tool in tools}

    async def of(self, profile: str, toolsets: frozenset[str], platform: str) -> SkillIndex:
        """The index of what can be used; empty where skills are not loaded or there are none."""
        if TOOLSET not in toolsets:
            return SkillIndex()
        tools = frozenset(name for name, toolset in self._tools.items() if toolset in toolsets)
        around = Surroundings(toolsets, tools, platform)
        try:
            return await self._shelves.of(profile).index(around)
        except (BadSkill, FileRefused) as error:
            # A library that cannot be read costs the skills and not the conversation.
            _log.error("the skills are not listed: %s", error)
            return SkillIndex()
