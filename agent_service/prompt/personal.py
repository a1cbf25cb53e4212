"""The prompt layers of a profile: identity, memory and skills."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from agent_service.profiles.memory.provider import ExternalMemory, Scope
from agent_service.profiles.memory.store import MemoryStore, Snapshot
from agent_service.profiles.skills.document import BadSkill, SkillContext
from agent_service.profiles.skills.files import FileRefused
from agent_service.profiles.skills.shelf import SkillShelves
from agent_service.records.requests import TurnRequest
from agent_service.security.threats import Screened
from agent_service.storage.profiles import ProfileStore
from agent_service.tools.base import Tool
from agent_service.tools.context_files import ContextFiles
from services.lifecycle import ungrouped

TOOLSET = "skills"

_log = logging.getLogger(__name__)

SOUL = "SOUL.md"


class Personal(Struct, frozen=True):
    """A profile's current layers."""

    soul: Screened = Screened()
    memories: Snapshot = Snapshot()
    skills: Screened = Screened()
    external: str = ""
    """What an external memory knows of the user."""


class PersonalLayers:
    """Reads the layers for new sessions."""

    def __init__(
        self,
        profiles: ProfileStore,
        memories: MemoryStore,
        shelves: SkillShelves,
        tools: Iterable[Tool[Any]],
        context_files: ContextFiles,
        external: ExternalMemory | None = None,
    ) -> None:
        self._profiles = profiles
        self._memories = memories
        self._shelves = shelves
        self._tools = {tool.name: tool.toolset for tool in tools}
        self._context_files = context_files
        self._external = external

    async def compose(self, request: TurnRequest, toolsets: frozenset[str]) -> Personal:
        profile = request.profile
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                memories = group.create_task(self._memories.snapshot(profile))
                skills = group.create_task(self._index(profile, toolsets, request.platform))
                external = group.create_task(self._known(request))
                (soul,) = await self._profiles.read(profile, SOUL)
                identity = await self._context_files.render(SOUL, soul)
        return Personal(identity, memories.result(), skills.result(), external.result())

    async def _known(self, request: TurnRequest) -> str:
        if self._external is None or not request.is_of_one_person:
            return ""
        return await self._external.block(Scope(request.profile), request.granted)

    async def _index(self, profile: str, toolsets: frozenset[str], platform: str) -> Screened:
        if TOOLSET not in toolsets:
            return Screened()
        tools = frozenset(name for name, toolset in self._tools.items() if toolset in toolsets)
        around = SkillContext(toolsets, tools, platform)
        try:
            return await self._shelves.for_profile(profile).index(around)
        except (BadSkill, FileRefused) as error:
            # An unreadable library costs the skills, not the conversation.
            _log.error("the skills are not listed: %s", error)
            return Screened()
