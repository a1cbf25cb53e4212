"""Templates of which one cannot be used."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from executor_service.commands.commands import CommandTable
from executor_service.errors import BackendUnavailable
from executor_service.pools.pool import Pool
from executor_service.pools.templates import Template, Templates
from executor_service.records import EndReason
from executor_service.workspaces.folders import WorkdirPolicy, Workspaces
from services.errors import Draining, InvalidArgument
from tests.fakes.plain_backend import NAME
from tests.unit.executor.core import OPTIONS, Core, open_core


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
            live, _ = await pool.take(1)
            live.retire(EndReason.LEASE_EXPIRED)
            await live.gone.wait()
        await templates.close_pools()
        with pytest.raises(Draining, match="about to end"):
            await templates.undrain()
        assert pool.stats.draining


class SlowlyClosed(Pool):
    """A pool of which somebody holds up the close."""

    def __init__(self, core: Core) -> None:
        workspaces = Workspaces(core.folder, WorkdirPolicy(False, core.folder, core.folder))
        make_table = partial(CommandTable, backend=NAME, stores=core.stores)
        super().__init__(core.backend, OPTIONS, workspaces, make_table, core.workers, core.metrics)
        self.is_closing, self.may_close = asyncio.Event(), asyncio.Event()

    async def close(self) -> None:
        await super().close()
        self.is_closing.set()
        await self.may_close.wait()


async def test_one_that_comes_while_all_are_drained_opens_again_with_the_others(
    tmp_path: Path,
) -> None:
    async with open_core(tmp_path) as core:
        usual, pool, is_there = core.templates.default, SlowlyClosed(core), asyncio.Event()
        late = replace(usual, name="late", pool=pool)

        async def opens(name: str) -> Template:
            if name == "default":
                return usual
            return late if is_there.is_set() else await refuses(name)

        templates = Templates(["late"], opens)
        await templates.open()
        await templates.drain()
        is_there.set()
        running = asyncio.ensure_future(templates.run())
        await pool.is_closing.wait()
        assert pool.stats.draining
        assert list(templates) == [usual, late], "who ends now closes its backend as well"
        await templates.undrain()
        pool.may_close.set()
        live, _ = await pool.take(1)
        assert not pool.stats.draining
        running.cancel()
        await asyncio.wait([running])
        await pool.drain()
        live.retire(EndReason.LEASE_EXPIRED)
        await live.gone.wait()
