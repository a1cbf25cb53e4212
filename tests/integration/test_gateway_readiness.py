"""A gateway that does not hear a platform is not ready, and says so; it recovers by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gateway_service.accounts import lease_table
from gateway_service.app import build_with
from gateway_service.authorization import Access
from gateway_service.errors import Unreachable
from gateway_service.limits import Rate
from gateway_service.metrics import GatewayMetrics
from gateway_service.platforms.base import Traits
from gateway_service.platforms.builtin import Configured
from gateway_service.platforms.telegram import TelegramPlatform
from gateway_service.runner import Watch
from gateway_service.storage import migrations
from gateway_service.storage.schema import metadata
from services.addresses import UnixAddress
from services.auth import Identity, new_tokens
from services.channels import Channels
from services.cli.process import readiness
from services.config import load_settings
from services.database import Database
from services.leases import new_owner
from services.lifecycle import Workers
from services.metrics import Meter
from services.migrations import prepare
from tests.fakes.clock import ManualClock
from tests.fakes.platform import MemoryPlatform
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_replicas import (
    LONG_S,
    SHORT_S,
    Agent,
    Replica,
    agent_at_the_wire,
    replica,
    until,
)

DEAF_S = 60.0


@pytest.fixture
async def database(sqlite_url: str) -> AsyncIterator[Database]:
    """The gateway's tables."""
    async with Database(sqlite_url, "gateway") as opened:
        await prepare(opened, metadata, migrations)
        yield opened


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    async with agent_at_the_wire() as served:
        yield served


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
    polls.extend(["", *[fault] * 200])
    async with replica(database, bot(telegram), agent, heard_by=clock) as running:
        await telegram.say(1, "answer one")
        await until(lambda: connected(running))
        await clock.advance(DEAF_S)
        assert (running.watch.unready(), connected(running)) == ("", True)
        await clock.advance(1)
        assert running.watch.unready() == "nothing was heard of telegram for 61 s"
        assert not connected(running)
        polls.clear()
        telegram.faults.released.set()
        await telegram.say(1, "answer two")
        while running.watch.unready():
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
        assert sorted([bool(first.watch.unready()), bool(second.watch.unready())]) == [False, True]
        deaf = first if first.watch.unready() else second
        # Whoever has lost the account stands by as well.
        leases = lease_table(LONG_S)
        await database.write(lambda conn: leases.clear_earlier_boots(conn, new_owner("replica")))
        thief = new_owner("thief")
        name = f"telegram:{TOKEN.partition(':')[0]}"
        assert await database.write(lambda conn: leases.claim(conn, name, thief))
        await until(lambda: not deaf.watch.unready())
        assert not connected(deaf)


async def test_an_account_that_is_refused_again_and_again_is_deaf() -> None:
    clock, registry, platform = ManualClock(), CollectorRegistry(), MemoryPlatform()
    watch = Watch(clock, GatewayMetrics.create(Meter(registry)))
    watch.listens(platform)
    await clock.advance(DEAF_S)
    watch.failed(platform, Unreachable("down"))
    watch.lost(platform)
    watch.listens(platform)
    assert watch.unready() == ""
    await clock.advance(1)
    assert watch.unready() == "nothing was heard of memory for 61 s"
    watch.heard(platform)
    assert watch.unready() == ""


@pytest.mark.parametrize("silent_s", [DEAF_S, DEAF_S + 1])
async def test_an_account_that_was_heard_until_it_was_lost_starts_anew(silent_s: float) -> None:
    clock, platform = ManualClock(), MemoryPlatform()
    watch = Watch(clock, GatewayMetrics.create(Meter(CollectorRegistry())))
    watch.listens(platform)
    watch.heard(platform)
    await clock.advance(silent_s)
    watch.lost(platform)
    # The database is away meanwhile, so that claims fail.
    for _ in range(3):
        await clock.advance(DEAF_S)
        watch.lost(platform)
    assert watch.unready()
    watch.listens(platform)
    was_deaf = silent_s > DEAF_S
    assert bool(watch.unready()) is was_deaf
    # That was once: it has not been heard since.
    await clock.advance(DEAF_S)
    watch.lost(platform)
    watch.listens(platform)
    await clock.advance(1)
    assert watch.unready()


async def test_the_process_says_what_its_gateway_says(tmp_path: Path) -> None:
    platform = MemoryPlatform(traits=Traits(message_units=200, rate=Rate(1, 1), deaf_after_s=0.0))
    settings = await asyncio.to_thread(load_settings, {}, {"HERMES_HOME": str(tmp_path)})
    await asyncio.to_thread(settings.home.create)
    at, token = UnixAddress(settings.home.socket), new_tokens()[Identity.GATEWAY]
    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(
            Channels(Identity.GATEWAY, {"agent": at}, token=token)
        )
        configured = [Configured(platform, Access(frozenset({"7"})))]
        gateway = build_with(configured, settings, agent, Meter(CollectorRegistry()))
        serves = False
        checks = readiness([gateway], lambda: serves)
        said = {name: check() for name, check in checks.items()}
        assert said == {"serving": "it starts or stops", "platforms": ""}
        await stack.enter_async_context(gateway)
        workers = await stack.enter_async_context(Workers())
        serves = True
        assert checks["platforms"]() == ""
        workers.start("gateway", gateway.run())
        await until(lambda: checks["platforms"]() == "nothing was heard of memory for 0 s")
        assert checks["serving"]() == ""
        await gateway.drain()
