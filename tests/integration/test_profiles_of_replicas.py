"""Replicas that change the same profile lose nothing: as if one had done it all, in some order."""

import random
from contextlib import AsyncExitStack
from itertools import pairwise
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
from agent_service.storage import profile_files
from agent_service.storage.profile_locks import RowLocks
from agent_service.storage.profiles import LOCK_WAIT_S
from agent_service.storage.schema import metadata
from services.clock import SystemClock
from services.database import Database
from services.database.leases import Fenced, new_owner
from services.errors import Unavailable
from services.home.paths import HomePaths
from services.lifecycle import all_of
from tests.security.scale import scale
from tests.support.profile_stores import stores

WRITERS = 16
OPERATIONS = scale().memory_operations
ADD, REPLACE, REMOVE = Action
LIMITS = Limits({Target.MEMORY: 3000, Target.USER: 3000})
NAME = "memories/MEMORY.md"
HOLDS = 150


async def change(store: MemoryStore, asked: MemoryChangeRequest) -> None:
    """Make a change; again where its turn does not come in time, as with 15 others before it on a
    busy machine, which is said.
    """
    while True:
        try:
            await store.change(asked)
        except Unavailable:
            continue
        return


async def work(store: MemoryStore, writer: int, done: dict[str, list[Operation]]) -> None:
    """Change a memory again and again, as a model does that sees what there is."""
    chance = random.Random(writer)
    for number in range(OPERATIONS):
        key = f"{writer}-{number}"
        entries = (await store.load("default"))[0].entries
        operation = Operation(ADD, f"entry {key}")
        if len(entries) > 40:
            operation = Operation(REMOVE, old_text=chance.choice(entries))
        elif entries and chance.random() < 0.4:
            operation = Operation(REPLACE, f"entry {key} again", chance.choice(entries))
        try:
            await change(
                store, MemoryChangeRequest(key, "default", Target.MEMORY, [operation], "test")
            )
        except MemoryRefused:
            continue  # another was faster with this entry
        done[key] = [operation]


@pytest.mark.timeout(3 * OPERATIONS + 60)
async def test_no_update_is_lost_among_many(
    profiles_url: str, sqlite_url: str, tmp_path: Path
) -> None:
    """Two replicas, each with half of the writers, against a model that does one at a time."""
    done: dict[str, list[Operation]] = {}
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(Database(profiles_url or sqlite_url, "agent"))
        await shared.migrate(metadata.create_all)
        memories: list[MemoryStore] = []
        for replica in ("one", "two"):
            opened = await stack.enter_async_context(
                stores(profiles_url, tmp_path, replica=replica)
            )
            memories.append(
                MemoryStore(opened.documents, shared, LIMITS, SystemClock(), ThreatScanner())
            )
        await all_of(work(memories[n % 2], n, done) for n in range(WRITERS))
        history = await memories[0].history("default", WRITERS * OPERATIONS)
        (text,) = await opened.documents.read("default", NAME)
    made = list(reversed(history))
    assert sorted(change.key for change in made) == sorted(done)
    model = ""
    for change in made:
        assert change.before == model, "every change began with what another had left"
        model = apply(model, done[change.key], LIMITS.usual[Target.MEMORY])
        assert change.after == model
    assert text.decode() == model
    assert len(made) >= WRITERS * OPERATIONS / 2


async def test_replicas_with_many_writers_let_each_other_in(postgres_url: str) -> None:
    """Else the others give up: of a thousand changes by 16 writers, one waited for ten seconds."""
    async with Database(postgres_url, "agent") as database:
        await database.migrate(metadata.create_all)
        held: list[str] = []

        async def again_and_again(name: str, locks: RowLocks) -> None:
            while len(held) < HOLDS:
                async with locks.hold("default", NAME):
                    held.append(name)

        replicas = {name: RowLocks(database, new_owner(name), LOCK_WAIT_S) for name in ("a", "b")}
        await all_of(
            again_and_again(name, locks) for name, locks in replicas.items() for _ in range(4)
        )
    assert sum(one != other for one, other in pairwise(held)) > HOLDS / 5


async def test_who_held_it_for_too_long_writes_nothing(postgres_url: str, tmp_path: Path) -> None:
    home = HomePaths(tmp_path, tmp_path)
    async with Database(postgres_url, "agent") as database:
        await database.migrate(metadata.create_all)
        one, two = (
            profile_files.RowProfiles(
                home, database, RowLocks(database, new_owner(name), 1), SystemClock()
            )
            for name in ("one", "two")
        )
        async with one.opened("default", NAME) as late:
            # As when the machine of the first stood still for longer than a lease.
            await RowLocks(database, new_owner("one"), 1).recover()
            async with two.opened("default", NAME) as document:
                await document.replace(b"two")
            with pytest.raises(Fenced):
                await late.replace(b"one")
        assert await two.read("default", NAME) == [b"two"]


async def test_a_replica_that_died_keeps_nothing_locked_after_its_start(
    postgres_url: str, tmp_path: Path
) -> None:
    async with Database(postgres_url, "agent") as database:
        await database.migrate(metadata.create_all)
        before = RowLocks(database, new_owner("one"), 1)
        holding = before.hold("default", NAME)
        await holding.__aenter__()
        after = RowLocks(database, new_owner("one"), 1)
        await after.recover()
        async with after.hold("default", NAME) as lease:
            assert lease.epoch == 2


async def test_a_replica_that_died_holds_nobody_up_for_longer_than_others_wait(
    postgres_url: str,
) -> None:
    async with Database(postgres_url, "agent") as database:
        await database.migrate(metadata.create_all)
        died = RowLocks(database, new_owner("one"), 1).hold("default", NAME)
        await died.__aenter__()
        async with RowLocks(database, new_owner("two"), LOCK_WAIT_S).hold("default", NAME) as lease:
            assert lease.epoch == 2
