"""An executor that is killed again and again, while twenty commands run."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from hermes.executor.v1 import exec_pb2
from services.config.settings import Settings
from services.errors import reason_of
from tests.security.dens import Lease
from tests.security.places import PLACES, Place, open_place
from tests.security.scale import scale
from tests.support.boxes import USUAL, backends
from tests.support.executor_client import Client
from tests.support.executors import Process, backend_of, end_boxes, until

SANDBOXES, COMMANDS_EACH = 4, 5
KNOWN_WITHIN_S = 10
FOR_EVER_S = 3600
"""At full size the executor is killed for longer than a command runs by default."""
COUNT = 'echo "$0" >>started; i=0; while :; do echo $i; i=$((i + 1)); sleep 0.2; done'
"""Notes that it was started, and goes on for ever."""

RUNNING = exec_pb2.EXEC_STATE_RUNNING
LOST = exec_pb2.EXIT_REASON_SANDBOX_LOST


@pytest.fixture
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(request.param, tmp_path) as made:
        yield made


@pytest.fixture
async def settings(place: Place, tmp_path: Path) -> AsyncIterator[Settings]:
    """No box is left at the end."""
    home = tmp_path / "home"
    settings = await asyncio.to_thread(place.settings, home, HERMES_KEEP_SANDBOXES="true")
    yield settings
    await end_boxes(settings)


@asynccontextmanager
async def life(settings: Settings) -> AsyncGenerator[tuple[Process, Client]]:
    """An executor, at an address of its own: gRPC waits a while before it tries one again that was
    dead."""
    async with (
        Process(settings, f"{secrets.token_hex(4)}.sock") as process,
        process.client() as client,
    ):
        yield process, client


@dataclass(frozen=True, slots=True)
class Running:
    """Twenty commands in four sandboxes."""

    leases: tuple[Lease, ...]
    exec_ids: dict[str, Lease]

    @classmethod
    async def start(cls, client: Client) -> "Running":
        answers = await asyncio.gather(*(client.acquire() for _ in range(SANDBOXES)))
        leases = tuple(answer.lease for answer in answers)
        exec_ids = {f"c{n}": leases[n % SANDBOXES] for n in range(SANDBOXES * COMMANDS_EACH)}
        await asyncio.gather(
            *(start(client, lease, exec_id) for exec_id, lease in exec_ids.items())
        )
        return cls(leases, exec_ids)


async def start(client: Client, lease: Lease, exec_id: str) -> exec_pb2.Exec:
    options = {"exec_id": exec_id, "run_timeout": Duration(seconds=FOR_EVER_S)}
    return await client.start(lease, "sh", "-c", COUNT, exec_id, **options)


async def fates(client: Client, running: Running) -> dict[str, str]:
    """What has become of each command: `goes on`, `lost`, or what else is said of it."""

    async def fate(exec_id: str, lease: Lease) -> str:
        try:
            found = await client.get(lease, exec_id)
            if found.state != RUNNING:
                return "lost" if found.exit.reason == LOST else str(found.exit)
            before = (await client.read(lease, exec_id, 0, 0)).total_bytes

            async def goes_on() -> bool:
                return (await client.read(lease, exec_id, 0, 0)).total_bytes > before

            await until(goes_on, KNOWN_WITHIN_S)
        except (grpc.aio.AioRpcError, TimeoutError) as error:
            return str(reason_of(error)) if isinstance(error, grpc.aio.AioRpcError) else "silent"
        return "goes on"

    found = await asyncio.gather(*(fate(*one) for one in running.exec_ids.items()))
    return dict(zip(running.exec_ids, found, strict=True))


async def starts(client: Client, running: Running) -> list[str]:
    """Every start of a command that ever was, in the sandboxes that live."""
    texts = [await client.output(lease, "cat started") for lease in running.leases]
    return sorted(line for text in texts for line in text.split())


async def boxes_of(settings: Settings) -> int:
    """How many boxes there are of an executor that does not run."""
    async with backend_of(settings) as backend:
        return len(await backend.list_boxes())


async def ask_again(client: Client, running: Running, number: int) -> None:
    """A caller who heard nothing, as the executor was killed, asks once more."""
    if number:
        lease, exec_id = running.leases[0], f"late{number}"
        await start(client, lease, exec_id)

        async def has_begun() -> bool:
            return bool((await client.read(lease, exec_id, 0, 1)).data)

        await until(has_begun)
        await client.signal(lease, exec_id)


async def kill_again_and_again(settings: Settings, times: int) -> tuple[Running, float]:
    """Kills executors, each with a command on its way; the longest time until all was known."""
    slowest_s = 0.0
    async with life(settings) as (process, client):
        running = await Running.start(client)
        await process.kill()
    for number in range(times):
        began = time.monotonic()
        async with life(settings) as (process, client):
            assert set((await fates(client, running)).values()) == {"goes on"}
            slowest_s = max(slowest_s, time.monotonic() - began)
            await ask_again(client, running, number)
            asking = asyncio.ensure_future(start(client, running.leases[0], f"late{number + 1}"))
            await asyncio.sleep(0.003 * (number % 10))
            await process.kill()
            with suppress(grpc.aio.AioRpcError):
                await asking
    return running, slowest_s


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", backends(PLACES, USUAL[:1]), indirect=True)
async def test_commands_go_on_or_are_lost_and_none_is_started_twice(
    place: Place, settings: Settings
) -> None:
    size = scale()
    times = size.kills_elsewhere if place.is_slow else size.kills
    running, slowest_s = await kill_again_and_again(settings, times)
    # gVisor starts slowly beside other tests.
    assert slowest_s < KNOWN_WITHIN_S * (2 if place.is_slow else 1)
    async with life(settings) as (process, client):
        await ask_again(client, running, times)
        wanted = sorted([*running.exec_ids, *(f"late{number + 1}" for number in range(times))])
        assert await starts(client, running) == wanted
        await process.kill()
    assert await boxes_of(settings) == SANDBOXES
    if place.backend != "ssh":  # where a machine's boxes are lost together
        await place.lose(settings.home.root, running.leases[0].sandbox_id)
    async with life(settings) as (process, client):
        found = await fates(client, running)
        lost = {exec_id for exec_id, fate in found.items() if fate == "lost"}
        gone = set[str]() if place.backend == "ssh" else {running.leases[0].sandbox_id}
        assert {running.exec_ids[exec_id].sandbox_id for exec_id in lost} == gone
        assert set(found.values()) <= {"goes on", "lost"}
        for lease in running.leases[bool(gone) :]:
            await client.release(lease)
        await process.stop()
    assert await boxes_of(settings) == 0
