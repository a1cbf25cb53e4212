"""Sandboxes whose executor has died and does not come back."""

import asyncio
from pathlib import Path

import pytest

from services.config.settings import Settings
from tests.e2e.processes import with_marker
from tests.support.executors import Process, executor_settings, until

MARKER = "7923.5"
"""Seconds that no other sleep on this machine takes."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those of an executor that its sandboxes do not wait for long."""
    (tmp_path / "config.yaml").write_text("executor: {orphan_timeout_s: 3}\n")
    return executor_settings(tmp_path, "bubblewrap", HERMES_KEEP_SANDBOXES="true")


async def test_a_sandbox_ends_when_its_executor_does_not_come_back(settings: Settings) -> None:
    async with Process(settings) as executor, executor.client() as client:
        lease = (await client.acquire()).lease
        await client.start(lease, "sleep", MARKER)
        await asyncio.sleep(4)
        assert await _runs(), "nobody is waited for as long as the executor is there"
        await executor.kill()
        await asyncio.sleep(1)
        assert await _runs(), "one that comes soon is waited for"
        await until(_has_ended)


async def _runs() -> bool:
    return bool(await asyncio.to_thread(with_marker, MARKER))


async def _has_ended() -> bool:
    return not await _runs()
