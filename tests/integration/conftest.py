"""Fixtures that tests of services together share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler_service.storage import migrations
from scheduler_service.storage.schema import metadata
from services.config.settings import Settings
from services.database import Database
from services.database.migrations import prepare
from tests.integration.gateway_replicas import Agent, agent_at_the_wire
from tests.integration.scheduler_parts import (
    NOON,
    SchedulerUnderTest,
    SetClock,
    Wire,
    fake_services,
    scheduler,
)
from tests.integration.scheduler_served import Serving, serving, settings_of
from tests.support.world import World, open_world


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    """The agent that a gateway calls."""
    async with agent_at_the_wire() as served:
        yield served


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An internet of the test's own."""
    async with open_world(tmp_path) as opened:
        yield opened


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    """The agent and the gateway that a scheduler calls."""
    async with fake_services() as services:
        yield services


@pytest.fixture
async def running(sqlite_url: str, wire: Wire) -> AsyncIterator[SchedulerUnderTest]:
    """A scheduler at noon; time passes for it when the test says so."""
    async with Database(sqlite_url, "scheduler") as database:
        await database.migrate(metadata.create_all)
        async with scheduler(database, wire, clock=SetClock(NOON)) as started:
            yield started


@pytest.fixture
async def prepared(database_url: str) -> AsyncIterator[Database]:
    """The scheduler's tables, in each kind of database in turn."""
    async with Database(database_url, "scheduler") as database:
        await prepare(database, migrations)
        yield database


@pytest.fixture
def berlin(tmp_path: Path) -> Settings:
    """Those of a home that lies in Berlin."""
    return settings_of(tmp_path)


@pytest.fixture
async def served(berlin: Settings, wire: Wire) -> AsyncIterator[Serving]:
    """A scheduler that serves."""
    async with serving(berlin, wire) as started:
        yield started
