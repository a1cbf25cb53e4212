"""A gateway that does not hear a platform is not ready, and says so; it recovers by itself."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from gateway_service.accounts.runner import PlatformHealth
from gateway_service.errors import Unreachable
from gateway_service.metrics import GatewayMetrics
from gateway_service.platforms.telegram.platform import TelegramPlatform
from gateway_service.storage import migrations
from gateway_service.storage.accounts import lease_table
from services.database import Database
from services.database.leases import new_owner
from services.database.migrations import prepare
from services.telemetry.metrics import Meter
from tests.fakes.clock import ManualClock
from tests.fakes.platform import MemoryPlatform
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_replicas import LONG_S, SHORT_S, Agent, Replica, replica
from tests.support.executors import until

DEAF_S = 60.0


@pytest.fixture
async def database(sqlite_url: str) -> AsyncIterator[Database]:
    """The gateway's tables."""
    async with Database(sqlite_url, "gateway") as opened:
        await prepare(opened, migrations)
        yield opened


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with fake_telegram() as served:
        yield served


def connected(running: Replica) -> bool:
    return running.metric("hermes_platform_connected") == 1


def bot(telegram: FakeTelegram) -> TelegramPlatform:
    """The account, over the library that is used outside of tests."""
    return TelegramPlatform(TOKEN, telegram.url)


@pytest.mark.parametrize("fault", ["hang", "drop_before"])
async def test_a_platform_that_was_not_heard_for_a_minute_makes_the_gateway_not_ready(
    fault: str, database: Database, agent: Agent, telegram: FakeTelegram
) -> None:
    clock, polls = ManualClock(), telegram.faults.planned["getUpdates"]
    polls.extend(["", *[fault] * 10_000])
    async with replica(database, bot(telegram), agent, heard_by=clock) as running:
        await until(lambda: connected(running))
        await until(lambda: len(polls) < 10_000)  # the first answer is stored
        await clock.advance(DEAF_S)
        assert (running.health.unready(), connected(running)) == ("", True)
        await clock.advance(1)
        assert running.health.unready() == "telegram has not answered for 61 s"
        assert not connected(running)
        polls.clear()
        telegram.faults.released.set()
        await telegram.say(1, "answer one")
        while running.health.unready():
            await clock.advance(1)
        assert connected(running)


async def test_who_stands_by_is_ready(
    database: Database, agent: Agent, telegram: FakeTelegram
) -> None:
    clock = ManualClock()
    telegram.faults.planned["getUpdates"].extend(["hang"] * 10)
    async with (
        replica(database, bot(telegram), agent, SHORT_S, heard_by=clock) as first,
        replica(database, bot(telegram), agent, SHORT_S, heard_by=clock) as second,
    ):
        await until(lambda: telegram.calls["getMe"] > 0)
        await clock.advance(DEAF_S + 1)
        assert sorted([bool(first.health.unready()), bool(second.health.unready())]) == [
            False,
            True,
        ]
        deaf = first if first.health.unready() else second
        # Whoever has lost the account stands by as well.
        leases = lease_table(LONG_S)
        await database.write(lambda conn: leases.clear_earlier_boots(conn, new_owner("replica")))
        thief = new_owner("thief")
        name = f"telegram:{TOKEN.partition(':')[0]}"
        assert await database.write(lambda conn: leases.claim(conn, name, thief))
        await until(lambda: not deaf.health.unready() and not connected(deaf))


async def test_an_account_that_is_refused_again_and_again_is_deaf() -> None:
    clock, registry, platform = ManualClock(), CollectorRegistry(), MemoryPlatform()
    health = PlatformHealth(platform, clock, GatewayMetrics.create(Meter(registry)))
    health.start_listening()
    await clock.advance(DEAF_S)
    health.note_failure(Unreachable("down"))
    health.note_loss()
    health.start_listening()
    assert health.unready() == ""
    await clock.advance(1)
    assert health.unready() == "memory has not answered for 61 s"
    health.note_answer()
    assert health.unready() == ""
