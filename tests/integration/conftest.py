"""Fixtures that tests of services together share."""

from collections.abc import AsyncIterator

import pytest

from scheduler_service.storage.schema import metadata
from services.database import Database
from tests.integration.scheduler_parts import (
    NOON,
    SchedulerUnderTest,
    SetClock,
    Wire,
    fake_services,
    scheduler,
)


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
