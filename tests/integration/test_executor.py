"""The executor's services over a real socket and real boxes, on every backend."""

import asyncio
import hashlib
import signal
import uuid
from collections.abc import AsyncIterator

import grpc.aio
import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.errors import Reason, reason_of
from services.rpc.auth import Identity
from tests.support.boxes import BUBBLEWRAP_FIRST
from tests.support.executor_client import Client
from tests.support.executors import Executor, end_boxes, executor_settings, refused, serving, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

Lease = sandbox_pb2.Lease


@pytest.fixture(scope="module", params=BUBBLEWRAP_FIRST)
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn."""
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor(
    backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Executor]:
    """One executor for all tests of a backend."""
    settings = executor_settings(tmp_path_factory.mktemp("home"), backend)
    async with serving(settings) as running:
        yield running
    await end_boxes(settings)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(executor: Executor) -> AsyncIterator[Client]:
    """An agent."""
    async with executor.client() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lease(client: Client) -> Lease:
    """A sandbox for tests that leave nothing in it."""
    return (await client.acquire()).lease


async def test_a_command_says_what_it_says(client: Client, lease: Lease, backend: str) -> None:
    seen = await client.run(lease, script="id -u; pwd; echo oops >&2; exit 3")
    assert (seen.stdout.decode().split("\n")[1:], seen.stderr) == (["/workspace", ""], b"oops\n")
    assert seen.code == 3
    assert (seen.opened.backend, seen.opened.isolation) == (
        backend,
        sandbox_pb2.ISOLATION_LEVEL_NAMESPACE,
    )
    assert set(seen.stdin_offsets) <= {0}
    assert seen.exit is not None
    assert (seen.exit.stdout_bytes, seen.exit.stderr_bytes) == (len(seen.stdout), 5)
    assert not seen.exit.truncated


async def test_programs_variables_and_folders(client: Client, lease: Lease) -> None:
    seen = await client.run(
        lease, "sh", "-c", 'echo "$GREETING" "$0"; pwd', "a b", env={"GREETING": "hi"}, cwd="/tmp"
    )
    assert seen.stdout == b"hi a b\n/tmp\n"
    assert await refused(client.start(lease, "no-such-program")) is Reason.PATH_INVALID
    assert await refused(client.start(lease, "true", cwd="/nowhere")) is Reason.PATH_INVALID
    assert await refused(client.start(lease, "a\0b")) is Reason.INVALID_ARGUMENT
    assert await refused(client.start(lease, "true", env={"A=B": "c"})) is Reason.INVALID_ARGUMENT
    assert await refused(client.start(lease)) is Reason.INVALID_ARGUMENT
    assert await refused(client.start(lease, "true", exec_id="a b")) is Reason.INVALID_ARGUMENT
    assert await refused(client.start(lease, "x" * 600_000)) is Reason.INVALID_ARGUMENT


async def test_an_id_stands_for_one_command(client: Client, lease: Lease) -> None:
    exec_id = uuid.uuid4().hex
    script = "echo started >> $HOME/" + exec_id + "; sleep 0.2"
    answers = await asyncio.gather(
        *(client.start(lease, script=script, exec_id=exec_id) for _ in range(8))
    )
    assert len({answer.start_time.ToNanoseconds() for answer in answers}) == 1
    assert await refused(client.start(lease, "true", exec_id=exec_id)) is Reason.ALREADY_EXISTS
    assert (await client.follow(lease, exec_id)).code == 0
    again = await client.start(lease, script=script, exec_id=exec_id)
    assert again.exit.code == 0
    assert await client.output(lease, f"cat {exec_id}") == "started"
    # An id that could not be used is free again.
    assert await refused(client.start(lease, "nope", exec_id=exec_id + "x")) is Reason.PATH_INVALID
    assert (await client.run(lease, "true", exec_id=exec_id + "x")).code == 0


async def test_a_stream_may_start_what_it_follows(client: Client, lease: Lease) -> None:
    exec_id = uuid.uuid4().hex
    script = f"echo started | tee -a $HOME/{exec_id}; exit 3"
    seen = await client.run_at_once(lease, script=script, exec_id=exec_id)
    assert (seen.opened.exec_id, seen.stdout, seen.code) == (exec_id, b"started\n", 3)
    again = await client.run_at_once(lease, script=script, exec_id=exec_id)
    assert (again.stdout, again.code) == (b"started\n", 3)
    assert await client.output(lease, f"cat {exec_id}") == "started"
    other = client.run_at_once(lease, "true", exec_id=exec_id)
    assert await refused(other) is Reason.ALREADY_EXISTS
    assert await refused(client.run_at_once(lease, "nope")) is Reason.PATH_INVALID
    stolen = Lease(sandbox_id=lease.sandbox_id, epoch=lease.epoch, token="guessed")
    assert await refused(client.run_at_once(stolen, "true")) is Reason.LEASE_INVALID


async def test_a_client_that_leaves_after_the_end_was_served(
    executor: Executor, client: Client, lease: Lease
) -> None:
    executor.calls.calls.clear()
    started = await client.start(lease, "true")
    async with client.attach(lease, started.exec_id) as call:
        async for message in call:
            if message.HasField("exited"):
                break
    running = await client.start(lease, "sleep", "9")
    async with client.attach(lease, running.exec_id) as call:
        await call.read()
    await until(lambda: len(executor.calls.calls) == 4)
    attached = [status for method, status in executor.calls.calls if method == "AttachExec"]
    assert attached == ["OK", "CANCELLED"]
    await client.signal(lease, running.exec_id)


async def test_a_stream_is_only_a_view(client: Client, lease: Lease) -> None:
    started = await client.start(
        lease, script="for i in $(seq 5); do echo $i; sleep 0.1; done; sleep 0.1"
    )
    async with client.attach(lease, started.exec_id) as call:
        async for message in call:
            if message.HasField("output"):
                break
    async with client.attach(lease, started.exec_id) as call:
        await call.write(exec_pb2.AttachExecRequest(detach=exec_pb2.AttachExecRequest.Detach()))
        assert not [message async for message in call if message.HasField("exited")]
    first, second = await asyncio.gather(
        client.follow(lease, started.exec_id), client.follow(lease, started.exec_id, stdout=4)
    )
    assert (first.stdout, second.stdout) == (b"1\n2\n3\n4\n5\n", b"3\n4\n5\n")
    assert (first.code, second.code) == (0, 0)
    later = await client.follow(lease, started.exec_id, stdout=8)
    assert (later.stdout, later.code) == (b"5\n", 0)


async def test_a_command_ends_by_a_signal_its_time_or_its_output(
    client: Client, lease: Lease
) -> None:
    started = await client.start(lease, "sleep", "60")
    await client.signal(lease, started.exec_id, signal.SIGKILL)
    ended = await client.wait(lease, started.exec_id)
    assert (ended.exit.reason, ended.exit.signal) == (exec_pb2.EXIT_REASON_CANCELLED, 9)
    seen = await client.run(lease, "sleep", "60", run_timeout=Duration(nanos=200_000_000))
    assert seen.exit is not None
    assert seen.exit.reason == exec_pb2.EXIT_REASON_TIMEOUT
    assert not seen.exit.HasField("code")


async def test_input_reaches_the_command(client: Client, lease: Lease) -> None:
    data = b"".join(b"%07d\n" % number for number in range(100_000))
    started = await client.start(lease, "sha256sum", stdin=True)
    async with client.attach(lease, started.exec_id) as call:
        for offset in range(0, len(data), 32_768):
            stdin = exec_pb2.AttachExecRequest.Stdin(
                offset=offset, data=data[offset : offset + 32_768]
            )
            await call.write(exec_pb2.AttachExecRequest(stdin=stdin))
            # What is known already is not given twice.
            await call.write(exec_pb2.AttachExecRequest(stdin=stdin))
        end = exec_pb2.AttachExecRequest.StdinEof()
        await call.write(exec_pb2.AttachExecRequest(stdin_eof=end))
        await call.done_writing()
        messages = [message async for message in call]
    offsets = [m.stdin_ack_offset for m in messages if m.HasField("stdin_ack_offset")]
    assert offsets == sorted(offsets)
    assert offsets[-1] == len(data)
    said = b"".join(message.output.data for message in messages)
    assert said.split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_a_gap_in_the_input_is_refused(client: Client, lease: Lease) -> None:
    started = await client.start(lease, "cat", stdin=True)
    async with client.attach(lease, started.exec_id) as call:
        stdin = exec_pb2.AttachExecRequest.Stdin(offset=5, data=b"x")
        await call.write(exec_pb2.AttachExecRequest(stdin=stdin))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [message async for message in call]
    assert reason_of(caught.value) is Reason.SERVICE_UNAVAILABLE
    assert (await client.get(lease, started.exec_id)).state == exec_pb2.EXEC_STATE_RUNNING
    await client.signal(lease, started.exec_id)


async def test_a_terminal_is_resized_and_its_command_signalled(
    client: Client, lease: Lease
) -> None:
    size = exec_pb2.TerminalSize(row_count=33, column_count=44)
    script = "trap 'exit 7' USR1; stty size; read x; stty size; while :; do sleep 0.05; done"
    started = await client.start(lease, script=script, terminal=size)
    said = b""
    async with client.attach(lease, started.exec_id) as call:
        async for message in call:
            said += message.output.data
            if message.output.data.startswith(b"33 44"):
                resized = exec_pb2.TerminalSize(row_count=55, column_count=66)
                await call.write(exec_pb2.AttachExecRequest(resize=resized))
                stdin = exec_pb2.AttachExecRequest.Stdin(offset=0, data=b"hello\n")
                await call.write(exec_pb2.AttachExecRequest(stdin=stdin))
            if b"55 66" in message.output.data:
                signalling = exec_pb2.AttachExecRequest.Signal(number=signal.SIGUSR1)
                await call.write(exec_pb2.AttachExecRequest(signal=signalling))
            if message.HasField("exited"):
                assert message.exited.code == 7
                break
    assert said.split()[:5] == [b"33", b"44", b"hello", b"55", b"66"]


async def test_stored_output_is_read_by_offset(client: Client, lease: Lease) -> None:
    started = await client.start(lease, script="seq 1 1000; echo oops >&2")
    await client.wait(lease, started.exec_id)
    expected = "".join(f"{number}\n" for number in range(1, 1001)).encode()
    page = await client.read(lease, started.exec_id, 0, 1_000_000)
    assert (page.data, page.offset, page.total_bytes) == (expected, 0, len(expected))
    assert page.exec.exit.code == 0
    page = await client.read(lease, started.exec_id, -10, 5)
    assert (page.data, page.offset) == (expected[-10:-5], len(expected) - 10)
    page = await client.read(lease, started.exec_id, -1_000_000, 4)
    assert (page.data, page.offset) == (b"1\n2\n", 0)
    page = await client.read(lease, started.exec_id, 0, 0, stream=2)
    assert page.data == b"oops\n"
    assert (await client.read(lease, started.exec_id, 99_999, 9)).data == b""
    assert await refused(client.read(lease, started.exec_id, 0, 1, stream=0)) is (
        Reason.INVALID_ARGUMENT
    )


async def test_commands_are_listed_as_they_began(client: Client, executor: Executor) -> None:
    lease = (await client.acquire()).lease
    wanted = [(await client.start(lease, "true")).exec_id for _ in range(40)]
    running = (await client.start(lease, "sleep", "60")).exec_id
    found = await client.list(lease)
    assert [one.exec_id for one in found] == [*wanted, running]
    assert found[-1].state == exec_pb2.EXEC_STATE_RUNNING
    for exec_id in wanted:
        assert (await client.wait(lease, exec_id)).exit.code == 0
    assert await refused(client.get(lease, "unknown")) is Reason.NOT_FOUND
    await client.release(lease)


async def test_only_agents_and_operators_may_call(executor: Executor) -> None:
    for identity in (Identity.GATEWAY, Identity.SCHEDULER, Identity.EXECUTOR):
        async with executor.client(identity) as other:
            assert await refused(other.acquire()) is Reason.PERMISSION_DENIED
    async with executor.client(Identity.OPERATOR) as operator:
        answer = await operator.sandboxes.GetCapabilities(sandbox_pb2.GetCapabilitiesRequest())
    assert answer.backends[0].available
