"""A supervisor that was taken over can harm its own sandbox, and nothing else."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from executor_service.sandboxes import opener
from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.errors import Reason, reason_of
from tests.security import hostile
from tests.security.dens import Lease
from tests.security.places import EVERYTHING_HELD, PLACES, open_place
from tests.security.scale import scale
from tests.support.boxes import BUBBLEWRAP_FIRST, USUAL, backends
from tests.support.executor_client import Client
from tests.support.executors import end_boxes, serving, until
from tests.support.replacement import replaced

LOST = sandbox_pb2.SANDBOX_STATE_LOST
TOLD_WITHIN_S = 5


@dataclass(frozen=True, slots=True)
class Beside:
    """Somebody else's sandbox, in which a command counts."""

    client: Client
    lease: Lease

    @classmethod
    async def settle(cls, client: Client) -> "Beside":
        lease = (await client.acquire()).lease
        script = "i=0; while :; do echo $i; i=$((i + 1)); sleep 0.05; done"
        # At full size it is disturbed for longer than a command runs by default.
        hour = Duration(seconds=3600)
        await client.start(lease, script=script, exec_id="counts", run_timeout=hour)
        return cls(client, lease)

    async def assert_undisturbed(self) -> None:
        assert await self.client.output(self.lease, "echo fine") == "fine"
        found = await self.client.get(self.lease, "counts")
        assert found.state == exec_pb2.EXEC_STATE_RUNNING


@asynccontextmanager
async def agent(name: str, folder: Path) -> AsyncGenerator[Client]:
    """An agent of an executor whose boxes can be made to say anything."""
    evil = await asyncio.to_thread(hostile.zipapp)
    async with open_place(name, folder) as place:
        settings = await asyncio.to_thread(place.settings, folder / "home")
        try:
            with replaced(opener, "build_zipapp", lambda: evil):
                async with serving(settings) as executor, executor.client() as client:
                    yield client
        finally:
            await end_boxes(settings)


async def provoke(client: Client, lease: Lease, name: str) -> Reason | None:
    """Have a box say something; what its caller hears."""
    try:
        async with asyncio.timeout(TOLD_WITHIN_S):
            await client.run(lease, "true", exec_id=f"evil-{name}")
    except TimeoutError:
        return None
    except grpc.aio.AioRpcError as error:
        return reason_of(error)
    return None


async def state(client: Client, lease: Lease) -> "sandbox_pb2.SandboxState.ValueType":
    request = sandbox_pb2.GetSandboxRequest(sandbox_id=lease.sandbox_id)
    return (await client.sandboxes.GetSandbox(request)).sandbox.state


async def is_lost(client: Client, lease: Lease) -> bool:
    """Whether a sandbox is reported lost soon."""

    async def lost() -> bool:
        return await state(client, lease) == LOST

    with suppress(TimeoutError):
        await until(lost, TOLD_WITHIN_S)
    return await lost()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", backends(PLACES, USUAL[:1]))
async def test_only_its_own_sandbox_is_lost(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    attacks = hostile.BREAKS[:: 1 if name in EVERYTHING_HELD else scale().every_nth]
    async with agent(name, tmp_path) as client:
        beside = await Beside.settle(client)
        for attack in attacks:
            lease = (await client.acquire()).lease
            await provoke(client, lease, attack)
            assert await is_lost(client, lease), attack
            await beside.assert_undisturbed()
        await provoke(client, (await client.acquire()).lease, hostile.FLOOD)
        await beside.assert_undisturbed()
        lease = (await client.acquire()).lease
        for attack in hostile.ODDITIES:
            assert await provoke(client, lease, attack) is Reason.PATH_INVALID
        assert await client.output(lease, "echo fine") == "fine"
        await beside.assert_undisturbed()
        await client.signal(beside.lease, "counts")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", BUBBLEWRAP_FIRST)
async def test_nothing_that_it_says_at_random_is_heard_elsewhere(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = 0
    async with agent(name, tmp_path) as client:
        beside = await Beside.settle(client)
        lease = (await client.acquire()).lease
        for seed in range(scale().fuzzed):
            exec_id = f"evil-random-{seed}"
            with suppress(grpc.aio.AioRpcError):
                await client.start(lease, "true", exec_id=exec_id)
            await asyncio.sleep(0.05)
            await beside.assert_undisturbed()
            if await state(client, lease) == LOST:
                lost += 1
                lease = (await client.acquire()).lease
        await client.signal(beside.lease, "counts")
    assert lost >= scale().fuzzed / 4
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
