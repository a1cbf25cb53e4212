"""Fixtures that tests of services together share."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.scheduler_parts import Wire, fake_services


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    """The agent and the gateway that a scheduler calls."""
    async with fake_services() as services:
        yield services
