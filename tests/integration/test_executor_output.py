"""Much output, slow readers and readers that vanish: bounded memory, and nobody else is held up."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.config.settings import Settings
from tests.support.executor_client import Client
from tests.support.executors import Process, end_boxes, executor_settings
from tests.support.memory import Memory

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1024 * 1024
FLOOD_BYTES = 200_000_000
NUMBERS = "seq -f %015.0f 1 12500000"
"""200 MB of lines of 16 bytes, each of which says where it stands."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return executor_settings(tmp_path_factory.mktemp("home"), "bubblewrap")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(settings: Settings) -> AsyncIterator[Process]:
    """An executor in a process of its own, so that its memory can be told."""
    async with Process(settings) as running:
        yield running
        await running.stop()
    await end_boxes(settings)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(process: Process) -> AsyncIterator[Client]:
    async with process.client() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lease(client: Client) -> sandbox_pb2.Lease:
    return (await client.acquire()).lease


def line(number: int) -> bytes:
    return b"%015d\n" % number


async def test_what_a_reader_gets_of_a_flood_is_where_it_says(
    client: Client, lease: sandbox_pb2.Lease
) -> None:
    started = await client.start(lease, script=NUMBERS)
    expected, skipped = 0, 0
    async with client.attach(lease, started.exec_id) as call:
        async for message in call:
            if message.HasField("exited"):
                assert message.exited.stdout_bytes == FLOOD_BYTES
                break
            output = message.output
            if not output.data:
                continue
            if output.dropped_before_offset:
                assert output.dropped_before_offset == output.offset > expected
                skipped += output.offset - expected
                expected = output.offset
            assert output.offset == expected
            begin = -output.offset % 16
            assert output.data[begin : begin + 16] == line((output.offset + begin) // 16 + 1)
            expected += len(output.data)
    assert expected == FLOOD_BYTES
    assert skipped < FLOOD_BYTES / 2


async def test_a_reader_that_does_not_read_holds_nobody_up(
    process: Process, client: Client, lease: sandbox_pb2.Lease
) -> None:
    memory = await asyncio.to_thread(Memory, process.pid)
    started = await client.start(lease, "head", "-c", str(60 * MIB), "/dev/zero")
    async with client.attach(lease, started.exec_id) as stuck:
        await stuck.read()
        ended = await client.wait(lease, started.exec_id)
        assert ended.exit.stdout_bytes == 60 * MIB
        seen = await client.follow(lease, started.exec_id)
        assert seen.code == 0
        assert (await client.run(lease, "true")).code == 0
    assert await asyncio.to_thread(memory.grown_mib) < 16


async def test_a_client_that_is_late_gets_all_of_it(
    client: Client, lease: sandbox_pb2.Lease
) -> None:
    started = await client.start(lease, "head", "-c", "300000", "/dev/zero")
    got = 0
    async with client.attach(lease, started.exec_id) as call:
        async for message in call:
            got += len(message.output.data)
            if message.HasField("exited"):
                break
            if message.HasField("opened"):
                await client.wait(lease, started.exec_id)
                await asyncio.sleep(0.3)
            # Everything was sent by now, and the stream is still there to be written to.
            signal = exec_pb2.AttachExecRequest.Signal(number=1)
            await call.write(exec_pb2.AttachExecRequest(signal=signal))
    assert got == 300_000


async def test_readers_that_vanish_leave_nothing_behind(
    process: Process, client: Client, lease: sandbox_pb2.Lease
) -> None:
    started = await client.start(
        lease, script="echo begun; while :; do date; sleep 0.01; done", exec_id="endless"
    )
    for _ in range(30):
        async with client.attach(lease, started.exec_id) as call:
            async for message in call:
                if message.HasField("output"):
                    break
    async with process.client() as gone:
        for _ in range(5):
            async with gone.attach(lease, started.exec_id) as call:
                await call.read()
    found = await client.get(lease, started.exec_id)
    assert found.state == exec_pb2.EXEC_STATE_RUNNING
    await client.signal(lease, started.exec_id)
    seen = await client.follow(lease, started.exec_id)
    assert seen.stdout.startswith(b"begun\n")
    assert seen.exit is not None
    assert len(seen.stdout) == seen.exit.stdout_bytes


async def test_a_long_silence_has_signs_of_life(client: Client, lease: sandbox_pb2.Lease) -> None:
    seen = await client.run(lease, script="python3 -c 'x = bytes(20000000)'; sleep 6")
    assert seen.heartbeats == 1
