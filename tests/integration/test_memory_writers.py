"""Sixteen writers of one memory: what each was told is what one after another would have done."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_service.profiles.memory.entries import (
    Action,
    Limits,
    MemoryRefused,
    Operation,
    Target,
    apply,
)
from agent_service.profiles.memory.store import MemoryChangeRequest, MemoryStore
from agent_service.security.threats import ThreatScanner
from agent_service.storage.profiles import FileProfiles
from agent_service.storage.schema import metadata
from services.clock import SystemClock
from services.database import Database
from services.home.paths import HomePaths
from tests.security.scale import scale_name

FULL = scale_name() == "full"
WRITERS, OPERATIONS = 16, 1000 if FULL else 50
REPLICAS = 4
LIMIT = 2200


@dataclass
class Writer:
    """Somebody with one entry of their own, who remembers what they were told."""

    name: str
    store: MemoryStore
    chance: random.Random
    has_entry: bool = False

    async def write(self, number: int) -> tuple[str, Operation] | None:
        """Add, replace or remove the entry; the change, or None where it was refused."""
        operation, key = self._next(number), f"{self.name}:{number}"
        asked = MemoryChangeRequest(key, "default", Target.MEMORY, (operation,), self.name)
        try:
            memory = await self.store.change(asked)
        except MemoryRefused:
            return None
        self.has_entry = operation.action is not Action.REMOVE
        own = [entry for entry in memory.entries if entry.startswith(f"{self.name} ")]
        assert own == ([operation.content] if self.has_entry else [])
        return key, operation

    def _next(self, number: int) -> Operation:
        said, mine = f"{self.name} says {number}", f"{self.name} "
        if self.chance.random() < 0.05:
            return Operation(Action.ADD, said + "!" * LIMIT)  # is refused
        if not self.has_entry:
            return Operation(Action.ADD, said)
        if self.chance.random() < 0.6:
            return Operation(Action.REPLACE, said, mine)
        return Operation(Action.REMOVE, old_text=mine)


@pytest.mark.timeout(1800 if FULL else 60)
async def test_sixteen_writers_lose_nothing(
    tmp_path: Path, database: Database, record_property: Callable[[str, str], None]
) -> None:
    await database.migrate(metadata.create_all)

    def store() -> MemoryStore:
        profiles = FileProfiles(HomePaths(tmp_path, tmp_path))
        limits = Limits({Target.MEMORY: LIMIT, Target.USER: 100})
        return MemoryStore(profiles, database, limits, SystemClock(), ThreatScanner())

    replicas = [store() for _ in range(REPLICAS)]
    done: dict[str, Operation] = {}

    async def write(number: int) -> None:
        writer = Writer(f"w{number:02}", replicas[number % REPLICAS], random.Random(number))
        for count in range(OPERATIONS):
            if (told := await writer.write(count)) is not None:
                done[told[0]] = told[1]

    await asyncio.gather(*map(write, range(WRITERS)))
    history = (await replicas[0].history("default", WRITERS * OPERATIONS))[::-1]
    assert sorted(change.key for change in history) == sorted(done)
    assert len(done) > WRITERS * OPERATIONS * 0.9
    text = ""
    for change in history:
        assert change.before == text
        text = apply(text, [done[change.key]], LIMIT)
        assert change.after == text
    memory, _ = await replicas[0].load("default")
    assert memory.text == text
    record_property("figure", f"{WRITERS} writers, {OPERATIONS} operations each, {len(done)} made")
