"""Boxes that are ready, that are being made, and that cannot be made."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from executor_service.errors import BackendUnavailable, BoxCreateFailed, PoolExhausted
from executor_service.sandboxes.leases import Launch
from services.errors import Draining
from tests.integration.executor.core import OPTIONS, Core, acquire_request, open_core
from tests.support.executors import until

WARM = replace(OPTIONS, warm=2)


async def until_ready(core: Core, count: int) -> None:
    await until(lambda: core.boxes("ready") == count)


async def test_as_many_as_wanted_are_kept_ready(tmp_path: Path) -> None:
    async with open_core(tmp_path, WARM) as core:
        await until_ready(core, 2)
        ready = set(core.backend.keys)
        first, second = await core.acquire(), await core.acquire()
        assert {first.launch, second.launch} == {Launch.WARM}
        assert {first.sandbox.claim.sandbox_id, second.sandbox.claim.sandbox_id} == ready
        await until_ready(core, 2)
        # A box is used once: what was released never comes back.
        await core.leases.release(first.sandbox)
        third = await core.acquire()
        assert third.sandbox.claim.sandbox_id not in ready


async def test_there_are_never_too_many(tmp_path: Path) -> None:
    async with open_core(tmp_path, WARM) as core:
        grants = await asyncio.gather(*(core.acquire() for _ in range(4)))
        assert len(core.backend.keys) == 4
        with pytest.raises(PoolExhausted):
            await core.acquire(wait_s=0.05)
        assert len(core.backend.keys) == 4
        await core.leases.release(grants[0].sandbox)
        await core.acquire()
        assert len(core.backend.keys) == 4


async def test_who_waits_gets_the_place_that_becomes_free(tmp_path: Path) -> None:
    async with open_core(tmp_path, replace(OPTIONS, most=1)) as core:
        held = await core.acquire()
        waiting = [asyncio.ensure_future(core.acquire()) for _ in range(3)]
        await asyncio.sleep(0.05)
        for _ in range(3):
            await core.leases.release(held.sandbox)
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            held = await done.pop()
            waiting = [one for one in waiting if not one.done()]
        assert waiting == []


async def test_who_leaves_while_a_box_is_made_leaves_no_box(tmp_path: Path) -> None:
    async with open_core(tmp_path, replace(OPTIONS, most=1)) as core:
        core.backend.gate.clear()
        leaving = asyncio.ensure_future(core.acquire())
        await asyncio.sleep(0.05)
        leaving.cancel()
        await asyncio.wait([leaving])
        core.backend.gate.set()
        assert (await core.acquire()).launch is Launch.COLD
        assert len(core.backend.keys) == 1
        folders = await asyncio.to_thread(lambda: list((tmp_path / "workspaces").iterdir()))
        assert len(folders) == 1


async def test_what_cannot_be_made_is_told_and_takes_no_place(tmp_path: Path) -> None:
    async with open_core(tmp_path, replace(OPTIONS, most=1)) as core:
        core.backend.fails = 2
        for _ in range(2):
            with pytest.raises(BoxCreateFailed, match="no box today"):
                await core.acquire()
        assert (await core.acquire()).launch is Launch.COLD


async def test_making_boxes_ready_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_core(tmp_path, replace(WARM, prefill=False)) as core:
        grant = await core.acquire()
        core.backend.fails = 1
        await until_ready(core, 2)
        assert caplog.text.count("no box can be made") == 1
        assert "no box today" in caplog.text
        await core.leases.release(grant.sandbox)


async def test_the_end_of_a_ready_box_is_noticed(tmp_path: Path) -> None:
    async with open_core(tmp_path, WARM) as core:
        await until_ready(core, 2)
        (first, second) = core.backend.keys
        core.backend.kill(first)
        await until(lambda: len(core.backend.keys) == 2 and first not in core.backend.keys)
        assert second in core.backend.keys


async def test_a_drained_pool_gives_nothing(tmp_path: Path) -> None:
    async with open_core(tmp_path, WARM) as core:
        await until_ready(core, 2)
        held = await core.acquire()
        await core.pool.drain()
        assert core.backend.keys == [held.sandbox.claim.sandbox_id]
        with pytest.raises(Draining):
            await core.acquire()


async def test_a_drained_pool_ends_what_is_being_made(tmp_path: Path) -> None:
    async with open_core(tmp_path, WARM) as core:
        await until_ready(core, 2)
        core.backend.gate.clear()
        held = await core.acquire()
        await until(lambda: core.boxes("making") == 1)
        draining = asyncio.ensure_future(core.pool.drain())
        await asyncio.sleep(0.05)
        core.backend.gate.set()
        await draining
        assert core.backend.made == 3
        assert core.backend.keys == [held.sandbox.claim.sandbox_id]


async def test_isolation_is_never_weaker_than_wanted(tmp_path: Path) -> None:
    async with open_core(tmp_path) as core:
        for strong in ("namespace", "userspace_kernel", "microvm"):
            with pytest.raises(BackendUnavailable, match="stronger"):
                await core.leases.acquire(acquire_request(min_isolation=strong))
        assert core.backend.made == 0


async def test_a_pool_can_be_made_larger_and_smaller(tmp_path: Path) -> None:
    async with open_core(tmp_path, replace(OPTIONS, most=1)) as core:
        held = await core.acquire()
        waiting = asyncio.ensure_future(core.acquire())
        await until(lambda: core.boxes("waiting") == 1)
        assert core.pool.stats.waiting_count == 1
        await core.pool.resize(warm=2, most=4)
        await waiting
        await until_ready(core, 2)
        await core.pool.resize(warm=0, most=1)
        await until_ready(core, 0)
        assert core.boxes("waiting") == 0
        assert held.sandbox.claim.sandbox_id in core.backend.keys
        with pytest.raises(PoolExhausted, match="all 1 sandboxes"):
            await core.acquire(wait_s=0.05)


@pytest.mark.parametrize("most", [1, 2])
async def test_one_that_is_ready_gives_way_to_a_session_that_comes_back(
    tmp_path: Path, most: int
) -> None:
    async with open_core(tmp_path, replace(OPTIONS, warm=most, most=most)) as core:
        await until_ready(core, most)
        first = await core.acquire("ses_one")
        await core.leases.release(first.sandbox)
        await until_ready(core, most)
        async with asyncio.timeout(10):
            again = await core.acquire("ses_one")
        assert again.sandbox.claim.workspace == first.sandbox.claim.workspace
