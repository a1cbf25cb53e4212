"""Strangers who guess pairing codes: none of them gets in, and no model hears of them."""

from collections.abc import AsyncIterator
from secrets import choice

import pytest

from gateway_service.chats.access import Access
from gateway_service.chats.pairing import ALPHABET, CODE_CHARS, LOCKED, Pairings
from gateway_service.storage import migrations
from services.database import Database
from services.database.migrations import prepare
from services.errors import FailedPrecondition, NotFound
from tests.fakes.clock import HastyClock
from tests.fakes.platform import MemoryPlatform
from tests.integration.gateway_replicas import agent_at_the_wire, replica
from tests.security.scale import scale
from tests.support.executors import until

STRANGERS = 1_000
ASKS = Access(frozenset({"7"}), pairs=True)


@pytest.fixture
async def database(sqlite_url: str) -> AsyncIterator[Database]:
    """The gateway's tables."""
    async with Database(sqlite_url, "gateway") as opened:
        await prepare(opened, migrations)
        yield opened


def guess() -> str:
    return "".join(choice(ALPHABET) for _ in range(CODE_CHARS))


@pytest.mark.timeout(3600)
async def test_no_guess_of_strangers_lets_them_in(database: Database) -> None:
    platform, guesses = MemoryPlatform(), scale().guesses
    async with agent_at_the_wire() as agent, replica(database, platform, agent, access=ASKS):
        for number in range(guesses):
            person = str(1000 + number % STRANGERS)
            platform.say(person, f"/pairing approve {guess()}", person)
        platform.say("5", "answer done")
        await until(lambda: platform.texts("5") == ["done"], 3000)
        assert len(agent.turns.requests) == 1
        await until(lambda: len([chat for chat in platform.chats if chat != "5"]) == 3)
    clock = HastyClock()
    assert all(each.approved_at is None for each in await Pairings(database, clock).list("default"))


@pytest.mark.timeout(3600)
async def test_no_guess_of_somebody_who_may_approve_hits(database: Database) -> None:
    clock = HastyClock()
    known, wrong, locked = Pairings(database, clock), 0, 0
    for _ in range(scale().guesses):
        try:
            await known.approve("default", guess(), "cli:mallory")
        except NotFound:
            wrong += 1
        except FailedPrecondition:
            locked += 1
            await clock.sleep(LOCKED.total_seconds())
    assert wrong + locked == scale().guesses
