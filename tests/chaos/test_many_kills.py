"""Kills at seeded points, in the middle of work: nothing is lost, nothing is twice.

Hermes is one process on SQLite, or four over mutual TLS on PostgreSQL, which is killed as well.
What is killed is started again under its name, with the leases that users have. The next kill comes
at a point of some turn, whether all is well again or not.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

import pytest

from tests.chaos.traffic import Traffic
from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.client import channels_of
from tests.e2e.deployment import SERVICES, Deployment, Server, four_processes, running
from tests.e2e.model import ModelProcess
from tests.fakes.telegram import FakeTelegram
from tests.security.scale import scale_name
from tests.support.postgres import PostgresServer, postgres_server

SEEDS = range(10 if scale_name() == "full" else 1)
KILLS_OF_ONE, KILLS_OF_FOUR = 6, 85
"""With each seed; one process takes the longest to start again."""

Victims: TypeAlias = Mapping[str, Callable[[], None]]
"""What kills something and starts it again."""


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    """A server of our own, as others use that of the suite."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def four(
    model: ModelProcess,
    environ: Mapping[str, str],
    database: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Deployment]:
    """Four processes that have nothing in common but the network, a CA and PostgreSQL."""
    need_backend("bubblewrap", tmp_path_factory.mktemp("probe"))
    folder = tmp_path_factory.mktemp("four")
    rows = {"HERMES_DATABASE_URL": database.url, "HERMES_PROFILES_STORE": "database"}
    config = sandboxed("bubblewrap")
    with running(four_processes(folder, model.url, config, **rows, **environ)) as deployment:
        yield deployment


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_one_process_is_killed_again_and_again(
    one: Deployment, telegram: FakeTelegram, seed: int, record_property: Callable[[str, str], None]
) -> None:
    telegram.faults.drop_before, telegram.faults.limited = 0.03, 0.01
    telegram.faults.redeliver, telegram.faults.delay_s = 0.1, 0.05
    victims = {"hermes": partial(_restart, one.servers["up"])}
    cut_off, figure = await _kill_again_and_again(one, victims, telegram, KILLS_OF_ONE, seed)
    assert cut_off > KILLS_OF_ONE, "the kills come in the middle of work"
    record_property("figure", figure)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_every_service_and_the_database_are_killed_again_and_again(
    four: Deployment,
    database: PostgresServer,
    telegram: FakeTelegram,
    seed: int,
    record_property: Callable[[str, str], None],
) -> None:
    victims = {name: partial(_restart, server) for name, server in four.servers.items()}

    def restart_database() -> None:
        database.kill()
        database.start()

    every = {**victims, "database": restart_database}
    cut_off, figure = await _kill_again_and_again(four, every, telegram, KILLS_OF_FOUR, seed)
    assert cut_off > KILLS_OF_FOUR, "the kills come in the middle of work"
    record_property("figure", figure)


def _restart(server: Server) -> None:
    server.kill()
    server.start()
    server.wait_ready()


async def _kill_again_and_again(
    deployment: Deployment, victims: Victims, telegram: FakeTelegram, kills: int, seed: int
) -> tuple[int, str]:
    """Kill each of them as often as the others, and check what came of all that was asked for;
    returns how often a kill cut somebody off, and the figures.
    """
    dice, cut_off = random.Random(seed), 0
    order = list(victims) * (kills // len(victims))
    dice.shuffle(order)
    assert len(order) == kills
    async with channels_of(deployment.client, SERVICES) as operator:
        traffic = Traffic(operator, telegram)
        async with asyncio.TaskGroup() as group:
            traffic.begin(group)
            for name in order:
                await traffic.reach_a_point(dice)
                cut_off += len(traffic.cuts)
                await asyncio.to_thread(victims[name])
            traffic.over = True
        counted = await traffic.check()
    return (
        cut_off,
        f"{kills} kills, each while {cut_off / kills:.1f} turns were waited for; {counted}",
    )
