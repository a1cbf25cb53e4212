"""Templates of which one cannot be used."""

import asyncio
from pathlib import Path

import pytest

from executor_service.errors import BackendUnavailable
from executor_service.records.sandboxes import EndReason
from executor_service.sandboxes.templates import Template, Templates
from services.errors import Draining, InvalidArgument
from tests.integration.executor.core import open_core


async def refuses(name: str) -> Template:
    raise BackendUnavailable(f"{name} is away")


async def test_without_the_usual_one_there_is_no_start() -> None:
    with pytest.raises(BackendUnavailable, match="default is away"):
        await Templates(["other"], refuses).open()


@pytest.mark.timeout(20)
async def test_one_that_does_not_answer_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        usual = core.templates.default

        async def opens(name: str) -> Template:
            if name == "away":
                return await refuses(name)
            if name == "mute":
                # It can be used, and does not say what it has.
                core.backend.listed.clear()
            elif name != "default":
                await asyncio.Event().wait()
            return usual

        templates = Templates(["silent", "default", "away", "mute"], opens)
        async with asyncio.timeout(8):
            await templates.open()
        core.backend.listed.set()
        assert templates.default is usual
        assert list(templates) == [usual]
    assert templates.refused["away"] == "away is away"
    assert "did not answer" in templates.refused["silent"]
    assert "did not answer" in templates.refused["mute"]
    with pytest.raises(BackendUnavailable, match="silent"):
        templates.find("silent")
    with pytest.raises(InvalidArgument, match="one of default, silent, away, mute"):
        templates.find("unheard-of")


async def test_what_was_drained_opens_again_unless_the_executor_ends(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        templates, pool = core.templates, core.templates.default.pool
        for _ in range(2):
            await templates.drain()
            with pytest.raises(Draining):
                await pool.take(1)
            await templates.undrain()
            connection, _ = await pool.take(1)
            connection.retire(EndReason.LEASE_EXPIRED)
            await connection.gone.wait()
        await templates.close_pools()
        with pytest.raises(Draining, match="is stopping"):
            await templates.undrain()
        assert pool.stats.draining
