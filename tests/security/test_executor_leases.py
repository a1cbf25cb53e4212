"""Nobody does anything with a sandbox that is not theirs, by any of the executor's methods."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import pytest
import pytest_asyncio

from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.errors import Reason, details_of
from tests.security.households import METHODS, Fields, answers
from tests.security.places import PLACES, open_place
from tests.security.profile_table import CASES
from tests.support.boxes import backends
from tests.support.executor_client import Client
from tests.support.executors import Executor, end_boxes, executor_settings, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

Lease = sandbox_pb2.Lease
Call = Callable[[Client, Lease, str], Awaitable[object]]

EXEC = "victim"


def _call(method: str, messages: Sequence[Fields]) -> Call:
    async def call(client: Client, lease: Lease, exec_id: str) -> None:
        things = {
            "sandbox_id": lease.sandbox_id,
            "token": lease.token,
            "epoch": str(lease.epoch),
            "exec_id": exec_id,
        }
        async for _ in answers(client.channel, method, messages, things, client.profile):
            pass

    return call


def _takes_lease(method: str) -> bool:
    asked = METHODS[method].input_type
    first = (asked, *(field.message_type for field in asked.fields))
    return any(message is not None and "lease" in message.fields_by_name for message in first)


LEASED: Mapping[str, Call] = {
    method.partition("/")[2]: _call(method, messages)
    for _, method, messages in CASES
    if _takes_lease(method)
}
"""Every method that takes a lease; see test_profiles_apart for the others."""


@dataclass(frozen=True, slots=True)
class Victim:
    """Somebody's sandbox, with a file and a command that runs."""

    client: Client
    lease: Lease

    async def assert_untouched(self) -> None:
        assert await self.client.output(self.lease, "ls -A; cat secret") == "secret\nmine"
        found = await self.client.get(self.lease, EXEC)
        assert found.state == exec_pb2.EXEC_STATE_RUNNING


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=backends(PLACES))
async def executor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Executor]:
    """One of each backend in turn."""
    async with open_place(request.param, tmp_path_factory.mktemp("place")) as place:
        settings = place.settings(tmp_path_factory.mktemp("home"))
        async with serving(settings) as running:
            yield running
        await end_boxes(settings)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def victim(executor: Executor) -> AsyncIterator[Victim]:
    async with executor.client(profile="anna") as client:
        lease = (await client.acquire("s")).lease
        await client.output(lease, "echo mine > secret")
        await client.start(lease, script="echo private; sleep 300", exec_id=EXEC)
        yield Victim(client, lease)
        await client.signal(lease, EXEC)


async def answer(call: Awaitable[object]) -> tuple[Reason, grpc.StatusCode, str]:
    """What a caller who is refused gets to see."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    found = details_of(caught.value)
    assert not found.metadata
    return found.reason, caught.value.code(), found.message


def changed(lease: Lease, **fields: object) -> Lease:
    other = Lease()
    other.CopyFrom(lease)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


@pytest.mark.parametrize("method", LEASED)
async def test_a_wrong_token_is_no_token(victim: Victim, method: str) -> None:
    right = victim.lease.token
    guesses = [
        "",
        "0" * 64,
        right[:-1],
        right + "0",
        right.upper() if right.upper() != right else right[::-1],
        right[:-1] + ("0" if right[-1] != "0" else "1"),
    ]
    for token in guesses:
        call = LEASED[method](victim.client, changed(victim.lease, token=token), EXEC)
        assert (await answer(call))[0] is Reason.LEASE_INVALID
    for epoch in (0, 2, -1, 1 << 62):
        call = LEASED[method](victim.client, changed(victim.lease, epoch=epoch), EXEC)
        assert (await answer(call))[0] is Reason.LEASE_INVALID
    await victim.assert_untouched()


async def test_a_token_is_of_one_sandbox(victim: Victim) -> None:
    own = (await victim.client.acquire("other")).lease
    for method, call in LEASED.items():
        mixed = changed(victim.lease, token=own.token)
        assert (await answer(call(victim.client, mixed, EXEC)))[0] is Reason.LEASE_INVALID, method
    await victim.client.release(own)
    await victim.assert_untouched()


async def test_a_lease_that_is_over_is_no_lease(executor: Executor) -> None:
    async with executor.client(profile="anna") as client:
        lease = (await client.acquire()).lease
        await client.release(lease)
        for method in ("RenewLease", "StartExec", "UploadFile", "DownloadFile", "RemovePath"):
            reason = (await answer(LEASED[method](client, lease, EXEC)))[0]
            assert reason is Reason.LEASE_INVALID, method


async def test_a_lease_is_of_one_executor(victim: Victim, tmp_path: Path) -> None:
    """A token that is replayed elsewhere names nothing there."""
    settings = executor_settings(tmp_path, "bubblewrap")
    async with serving(settings) as other, other.client(profile="anna") as client:
        own = (await client.acquire("s")).lease
        for method, call in LEASED.items():
            assert (await answer(call(client, victim.lease, EXEC)))[0] is Reason.NOT_FOUND, method
            mixed = changed(own, token=victim.lease.token)
            assert (await answer(call(client, mixed, EXEC)))[0] is Reason.LEASE_INVALID, method
    await end_boxes(settings)


async def test_who_is_refused_leaves_a_trace(
    executor: Executor, victim: Victim, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = {
        "other_profile": ("ben", victim.lease),
        "wrong_token": ("anna", changed(victim.lease, token="0" * 64)),
    }
    for why, (profile, lease) in refusals.items():
        before = executor.metric("hermes_lease_refusals_total", reason=why)
        caplog.clear()
        async with executor.client(profile=profile) as client:
            await answer(client.list(lease))
        assert executor.metric("hermes_lease_refusals_total", reason=why) == before + 1
        (row,) = [vars(record) for record in caplog.records if "audit" in vars(record)]
        assert (row["audit"], row["sandbox_id"]) == ("lease_refused", lease.sandbox_id)
        assert row["reason"] == why
        assert lease.token not in caplog.text


async def test_a_follower_fences_the_owner_before(executor: Executor) -> None:
    async with executor.client() as client:
        old = (await client.acquire("fenced")).lease
        await client.output(old, "echo mine > secret")
        await client.start(old, "sleep", "300", exec_id=EXEC)
        async with client.attach(old, EXEC) as stream:
            new = (await client.acquire("fenced")).lease
            for method, call in LEASED.items():
                assert (await answer(call(client, old, EXEC)))[0] is Reason.STALE_EPOCH, method
            # A stream that was opened before cannot make the command do anything either.
            kill = exec_pb2.AttachExecRequest.Signal(number=9)
            await stream.write(exec_pb2.AttachExecRequest(signal=kill))

            async def to_the_end() -> None:
                async for _ in stream:
                    pass

            assert (await answer(to_the_end()))[0] is Reason.STALE_EPOCH
        await Victim(client, new).assert_untouched()
        assert len(await client.list(new)) == 3, "more than was started on purpose"
        await client.signal(new, EXEC)


async def test_a_session_belongs_to_a_profile(executor: Executor, victim: Victim) -> None:
    async with executor.client(profile="ben") as ben:
        own = await ben.acquire("s")
        assert own.sandbox.sandbox_id != victim.lease.sandbox_id
        assert await ben.output(own.lease, "ls -A") == ""
        listed = await ben.sandboxes.ListSandboxes(sandbox_pb2.ListSandboxesRequest(profile="ben"))
        assert [found.sandbox_id for found in listed.sandboxes] == [own.sandbox.sandbox_id]
        await ben.release(own.lease)
        # Its workspace comes back to the same profile only.
        again = (await ben.acquire("s")).lease
        assert await ben.output(again, "ls -A") == ""
        await ben.release(again)
    await victim.assert_untouched()


async def test_no_token_is_on_disk(executor: Executor, victim: Victim) -> None:
    lease = (await victim.client.acquire("written")).lease

    def files_with(text: str) -> list[Path]:
        files = (path for path in executor.home.rglob("*") if path.is_file())
        return [path for path in files if text.encode() in path.read_bytes()]

    assert await asyncio.to_thread(files_with, lease.token) == []
    assert await asyncio.to_thread(files_with, lease.sandbox_id)
    await victim.client.release(lease)
