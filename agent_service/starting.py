"""What goes on beside the agent's start, while other services wait for engines and disks."""

import asyncio
from collections.abc import Awaitable, Callable

from agent_service.config import AgentConfig
from agent_service.home.base import HomeStore
from agent_service.models.configured import ConfiguredModel
from agent_service.security.threats import ThreatScanner
from agent_service.skills.bundling import BundledSkills, Package
from agent_service.skills.shelf import SkillShelves
from agent_service.stores import Stores
from services.clock import Clock
from services.lifecycle import Workers

COPY_AFTER_S = 2.0
"""How long after the start skills are copied that nobody has asked for yet: a command that brings a
service with it and ends has no use for them."""


def shelves_of(
    config: AgentConfig, stores: Stores, clock: Clock, scanner: ThreatScanner
) -> SkillShelves:
    """The libraries of skills, with those in them that come with Hermes where that is wanted."""
    bundled = BundledSkills(Package()) if config.skills.bundled else None
    return SkillShelves(stores.skills, clock, scanner, bundled)


def beside_start(
    config: AgentConfig,
    model: ConfiguredModel,
    shelves: SkillShelves,
    homes: HomeStore,
    workers: Workers,
) -> Callable[[], Awaitable[None]]:
    """Begins it; whoever needs it sooner waits for it."""

    async def copy() -> None:
        await asyncio.sleep(COPY_AFTER_S)
        for profile in await homes.profiles():
            await shelves.of(profile).ready()

    async def start() -> None:
        if config.model.preload:
            workers.start("load of the model's SDK", model.preload())
        if config.skills.bundled:
            workers.start("copy of the bundled skills", copy())

    return start
