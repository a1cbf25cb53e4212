"""The layers of a prompt that are the user's own: identity, what is remembered and learned."""

import asyncio

from msgspec import Struct

from agent_service.memory.store import MemoryStore, Snapshot
from agent_service.prompt.context_files import ContextFiles
from agent_service.skills.index import SkillIndex
from agent_service.skills.prompt import SkillIndexes
from agent_service.storage.profiles import ProfileStore
from services.task_groups import ungrouped

SOUL = "SOUL.md"


class Personal(Struct, frozen=True):
    """A profile's own layers, as they are now."""

    soul: str = ""
    memories: Snapshot = Snapshot()
    skills: SkillIndex = SkillIndex()
    blocked: tuple[str, ...] = ()
    """What a person is to hear of what was kept out of the identity."""


class PersonalLayers:
    """Reads them for sessions that begin."""

    def __init__(
        self,
        profiles: ProfileStore,
        memories: MemoryStore,
        skills: SkillIndexes,
        context_files: ContextFiles,
    ) -> None:
        self._profiles = profiles
        self._memories = memories
        self._skills = skills
        self._context_files = context_files

    async def of(self, profile: str, toolsets: frozenset[str], platform: str) -> Personal:
        """The layers of a profile, for a session with some toolsets on a platform."""
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                memories = group.create_task(self._memories.snapshot(profile))
                skills = group.create_task(self._skills.of(profile, toolsets, platform))
                (soul,) = await self._profiles.read(profile, SOUL)
                identity = await self._context_files.shown(SOUL, soul)
        blocked = (identity.blocked,) if identity.blocked else ()
        return Personal(identity.text, memories.result(), skills.result(), blocked)
