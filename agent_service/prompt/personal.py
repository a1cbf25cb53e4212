"""The layers of a prompt that are the user's own: who the agent is, and what is remembered."""

import asyncio
from dataclasses import dataclass

from agent_service.memory.store import MemoryStore
from agent_service.storage.profiles import ProfileStore

SOUL = "SOUL.md"


@dataclass(frozen=True, slots=True)
class Personal:
    """A profile's own layers, as they are now."""

    soul: str = ""
    memories: tuple[str, ...] = ()


class PersonalLayers:
    """Reads them for sessions that begin."""

    def __init__(self, profiles: ProfileStore, memories: MemoryStore) -> None:
        self._profiles = profiles
        self._memories = memories

    async def of(self, profile: str) -> Personal:
        """The layers of a profile."""
        (soul,), memories = await asyncio.gather(
            self._profiles.read(profile, SOUL), self._memories.load(profile)
        )
        texts = tuple(memory.in_prompt() for memory in memories)
        return Personal(soul.decode(errors="replace").lstrip("\ufeff"), texts)
