"""A sandbox that gets lost is told soon, and nothing runs anywhere else in its place."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import grpc.aio
import pytest

from hermes.executor.v1 import exec_pb2
from services.errors import Reason
from tests.security.dens import Lease
from tests.security.places import LOSSES, Place, open_place
from tests.support.boxes import backends
from tests.support.executor_client import Client, Seen
from tests.support.executors import Executor, end_boxes, refused, serving, until

TOLD_WITHIN_S = 5
LEAVE_CANARY = 'echo ran >"$0"; echo begun; sleep 600'


@pytest.fixture
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(request.param, tmp_path) as made:
        yield made


@pytest.fixture
async def executor(place: Place, tmp_path: Path) -> AsyncIterator[Executor]:
    settings = await asyncio.to_thread(place.settings, tmp_path / "home")
    async with serving(settings) as running:
        yield running
    await end_boxes(settings)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file of the host that no sandbox can make, and whatever runs beside the executor can."""
    folder = tmp_path / "host"
    folder.mkdir(mode=0o700)
    return folder / "canary"


async def follow(client: Client, lease: Lease, canary: Path) -> "asyncio.Task[Seen]":
    """What somebody will see who follows a command that has begun."""
    following = asyncio.create_task(
        client.run(lease, "sh", "-c", LEAVE_CANARY, str(canary), exec_id="x")
    )

    async def has_begun() -> bool:
        with suppress(grpc.aio.AioRpcError):
            return bool((await client.read(lease, "x", 0, 9)).data)
        return False

    await until(has_begun)
    return following


@pytest.mark.timeout(180)
@pytest.mark.parametrize("place", backends(LOSSES), indirect=True)
async def test_a_loss_is_told_and_nothing_runs_elsewhere(
    place: Place, executor: Executor, canary: Path
) -> None:
    async with executor.client() as client:
        lease = (await client.acquire("s")).lease
        following = await follow(client, lease, canary)
        losing = asyncio.ensure_future(place.lose(executor.home, lease.sandbox_id))
        began = time.monotonic()
        async with asyncio.timeout(3 * TOLD_WITHIN_S):
            seen = await following
        told_s = time.monotonic() - began
        assert seen.exit is not None
        assert seen.exit.reason == exec_pb2.EXIT_REASON_SANDBOX_LOST
        assert not seen.exit.HasField("code")
        assert seen.stdout == b"begun\n"
        assert (await client.read(lease, "x", 0, 9)).data == b"begun\n"
        assert told_s < TOLD_WITHIN_S
        again = client.start(lease, "sh", "-c", LEAVE_CANARY, str(canary))
        assert await refused(again) is Reason.SANDBOX_LOST
        await losing
        await place.mend()
        later = await client.acquire("s")
        assert later.sandbox.sandbox_id != lease.sandbox_id
        assert later.sandbox.backend == place.backend
        assert await client.output(later.lease, "echo new") == "new"
        await client.release(later.lease)
    assert not await asyncio.to_thread(canary.exists)
