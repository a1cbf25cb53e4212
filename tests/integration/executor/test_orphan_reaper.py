"""Boxes that nobody knows, and those that only look like it."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from executor_service.backends.base import BoxSpec, Limits
from tests.integration.executor.core import OPTIONS, Core, open_core
from tests.support.executors import until


async def stray(core: Core, key: str = "stray") -> BoxSpec:
    """A box that some executor had asked for."""
    workspace = core.folder / "workspaces" / f"wsp_{key}"
    await asyncio.to_thread(workspace.mkdir, parents=True)
    spec = BoxSpec(key, OPTIONS.owner, "default", workspace, Limits())
    await core.backend.create(spec)
    return spec


async def test_a_box_that_appears_late_is_ended(tmp_path: Path) -> None:
    async with open_core(tmp_path, replace(OPTIONS, warm=1)) as core:
        held = await core.acquire()
        spec = await stray(core)
        await core.reaper.sweep()
        assert "stray" not in core.backend.keys
        assert held.sandbox.claim.sandbox_id in core.backend.keys
        assert not await asyncio.to_thread(spec.workspace.exists)
        assert core.metric("hermes_orphans_reaped_total") == 1


async def test_a_box_that_is_being_made_is_none(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        core.backend.told.clear()
        making = asyncio.ensure_future(core.acquire())
        await until(lambda: len(core.backend.keys) == 1)
        await core.reaper.sweep()
        core.backend.told.set()
        grant = await making
        assert core.backend.keys == [grant.sandbox.claim.sandbox_id]
        assert core.metric("hermes_orphans_reaped_total") == 0


async def test_a_box_that_ends_while_boxes_are_listed_is_none(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        grant = await core.acquire()
        core.backend.listed.clear()
        sweeping = asyncio.ensure_future(core.reaper.sweep())
        await asyncio.sleep(0)
        await core.leases.release(grant.sandbox)
        core.backend.listed.set()
        await sweeping
        assert core.backend.keys == []
        assert core.metric("hermes_orphans_reaped_total") == 0


async def test_what_somebody_has_written_stays(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        spec = await stray(core)
        await asyncio.to_thread((spec.workspace / "file").write_text, "kept")
        await core.reaper.sweep()
        assert core.backend.keys == []
        assert await asyncio.to_thread((spec.workspace / "file").read_text) == "kept"


async def test_a_sweep_waits_for_those_that_are_being_ended(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        await stray(core)
        (box,) = await core.backend.list_boxes()
        core.workers.start("end", core.reaper.end(box))
        await asyncio.sleep(0)
        await core.reaper.sweep()
        assert core.backend.keys == []
        assert core.metric("hermes_orphans_reaped_total") == 1
