"""Updates the gauges that need queries, now and then rather than on each scrape."""

import logging
from collections import Counter as Counts
from collections.abc import Awaitable, Callable, Collection

from msgspec import Struct
from sqlalchemy import Connection

from agent_service.models.budgeted_models import BudgetedModels
from agent_service.profiles.memory.entries import Target
from agent_service.profiles.memory.store import MemoryStore
from agent_service.profiles.skills.document import BadSkill
from agent_service.profiles.skills.files import FileRefused
from agent_service.profiles.skills.shelf import PROFILES_KEPT, SkillShelves
from agent_service.profiles.skills.usage import SkillState
from agent_service.records.budget import Scope
from agent_service.storage.activity import Waiting, waiting
from agent_service.storage.budgets import used_ratios
from agent_service.turns.metrics import Gauges
from services.clock import Clock
from services.database import Database
from services.errors import HermesError

READ_S = 10.0
"""The interval of queries, and the delay of the first."""
FILES_EVERY = 6

_log = logging.getLogger(__name__)


class GaugeUpdater(Struct, frozen=True):
    """Reads values for gauges."""

    database: Database
    spending: BudgetedModels
    memories: MemoryStore
    shelves: SkillShelves
    profiles: Callable[[], Awaitable[Collection[str]]]
    gauges: Gauges
    clock: Clock

    async def run(self) -> None:
        count = 0
        while True:
            await self.clock.sleep(READ_S)
            try:
                await self.read_database()
                if count % FILES_EVERY == 0:
                    await self.read_files()
            except (HermesError, BadSkill, FileRefused, OSError) as error:
                _log.info("some metrics stay as they are: %s", error)
            count += 1

    async def read_database(self) -> None:
        policy = self.spending.policy
        day = self.spending.account("", "").day

        def read(conn: Connection) -> tuple[Waiting, dict[Scope, float]]:
            return waiting(conn), dict(used_ratios(conn, policy, day))

        found, ratios = await self.database.read(read)
        gauges = self.gauges
        gauges.waits(found, self.clock.now())
        for scope in Scope:
            if scope in ratios:
                gauges.budgets.labels(scope).set(ratios[scope])
            else:
                gauges.budgets.remove(scope)

    async def read_files(self) -> None:
        """Read memories and skills of a limited number of profiles."""
        used = dict.fromkeys(Target, 0.0)
        states = Counts[SkillState](dict.fromkeys(SkillState, 0))
        for profile in sorted(await self.profiles())[:PROFILES_KEPT]:
            for memory in await self.memories.load(profile):
                used[memory.target] = max(used[memory.target], memory.used_ratio)
            states.update(await self.shelves.for_profile(profile).states())
        for target, ratio in used.items():
            self.gauges.memories.labels(target).set(ratio)
        for state, count in states.items():
            self.gauges.skills.labels(state).set(count)
