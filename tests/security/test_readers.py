"""Output that nobody reads, and readers that do not read: nobody else is held up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from hermes.executor.v1 import exec_pb2
from tests.security.dens import MIB, Den, Lease, den, fare
from tests.security.scale import scale
from tests.support.boxes import BUBBLEWRAP_FIRST
from tests.support.executor_client import Client
from tests.support.memory import Memory

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENDS_BYTES = 16 * 1024
FIRST_LINE = 10**14
ENDLESS = f"seq {FIRST_LINE} {10**15 - 1}"
"""Lines of 16 bytes, each of which says where it stands."""
CHATTY = "while :; do head -c 300000 /dev/zero; sleep 0.05; done"
SLEEPERS = 3
MUCH_BYTES = 20 * MIB


@pytest.fixture(scope="module", params=BUBBLEWRAP_FIRST)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def at(backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Den]:
    async with den(tmp_path_factory.mktemp("home"), backend, {}) as opened:
        yield opened


async def flood(client: Client, lease: Lease, seconds: float) -> exec_pb2.Exec:
    """A command that has written as fast as it could for so long, while nobody read."""
    limit = Duration(nanos=int(seconds * 1e9) % 10**9, seconds=int(seconds))
    started = await client.start(lease, script=ENDLESS, run_timeout=limit)
    ended = await client.wait(lease, started.exec_id, int(seconds) + 30)
    assert ended.exit.reason == exec_pb2.EXIT_REASON_TIMEOUT
    return ended


def lines(first_byte: int, size: int) -> bytes:
    """What the endless output has there, from the start of a line on."""
    first = FIRST_LINE + first_byte // 16
    return b"".join(b"%d\n" % number for number in range(first, first + size // 16))


async def test_a_flood_that_nobody_reads_is_bounded(at: Den) -> None:
    lease = await at.lease()
    memory = await asyncio.to_thread(Memory, at.process.pid)
    ended = await flood(at.client, lease, scale().flood_s)
    grown_mib = await asyncio.to_thread(memory.grown_mib)
    total = ended.exit.stdout_bytes
    assert ended.exit.truncated == (total > 32 * MIB)
    assert grown_mib < 16
    first = await at.client.read(lease, ended.exec_id, 0, ENDS_BYTES)
    assert (first.offset, first.data) == (0, lines(0, ENDS_BYTES))
    last = await at.client.read(lease, ended.exec_id, -ENDS_BYTES, ENDS_BYTES)
    assert (last.offset, len(last.data)) == (total - ENDS_BYTES, ENDS_BYTES)
    to_a_line = -last.offset % 16
    whole = last.data[to_a_line : to_a_line + (ENDS_BYTES - to_a_line) // 16 * 16]
    assert whole == lines(last.offset + to_a_line, len(whole))
    await at.client.release(lease)


@pytest.mark.alone
async def test_readers_that_sleep_hold_nobody_up(at: Den) -> None:
    lease, neighbour = await at.lease(), await at.lease()
    chatty = (await at.client.start(lease, script=CHATTY)).exec_id
    sleepers = AsyncExitStack()

    async def sleep_or_leave(is_loud: bool) -> None:
        await sleepers.aclose()
        for _ in range(SLEEPERS if is_loud else 0):
            stream = await sleepers.enter_async_context(at.client.attach(lease, chatty))
            await stream.read()

    async with sleepers:
        found = await fare(lambda: at.latency_s(neighbour), sleep_or_leave, scale().rounds)
        await sleep_or_leave(is_loud=True)
        await asyncio.sleep(scale().slow_reader_s)
        # Its command goes on all the time, and another one is read to its end.
        before = (await at.client.read(lease, chatty, 0, 0)).total_bytes
        much = await at.client.run(lease, "head", "-c", str(MUCH_BYTES), "/dev/zero")
        assert len(much.stdout) == MUCH_BYTES
        assert (await at.client.read(lease, chatty, 0, 0)).total_bytes > before
    assert found.is_fair, found
    for done in (lease, neighbour):
        await at.client.release(done)
