"""What an operator may do with sandboxes that others have, and nobody else."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.errors import Reason
from services.rpc.auth import Identity
from tests.security.test_executor_leases import Lease, changed
from tests.support.executor_client import Client
from tests.support.executors import Executor, end_boxes, executor_settings, refused, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

USES = "hermes_operator_uses_total"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Executor]:
    settings = executor_settings(tmp_path_factory.mktemp("home"), "bubblewrap")
    async with serving(settings) as running:
        yield running
    await end_boxes(settings)


@pytest_asyncio.fixture(loop_scope="module")
async def agent(executor: Executor) -> AsyncIterator[Client]:
    async with executor.client(profile="anna") as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def operator(executor: Executor) -> AsyncIterator[Client]:
    async with executor.client(Identity.OPERATOR, "anna") as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def lease(agent: Client) -> AsyncIterator[Lease]:
    """The lease of an agent's sandbox."""
    held = (await agent.acquire()).lease
    yield held
    await agent.release(held)


def named(lease: Lease) -> Lease:
    """What an operator shows: which sandbox is meant, and nothing more."""
    return Lease(sandbox_id=lease.sandbox_id)


@pytest.mark.parametrize("shown", [{"token": "0" * 64}, {"epoch": 1}, {"token": "x", "epoch": 1}])
async def test_an_operator_who_shows_a_lease_shows_a_true_one(
    operator: Client, lease: Lease, shown: dict[str, object]
) -> None:
    wrong = changed(named(lease), **shown)
    assert await refused(operator.list(wrong)) is Reason.LEASE_INVALID


async def test_an_operator_finds_no_sandbox_under_another_profile(
    executor: Executor, lease: Lease
) -> None:
    async with executor.client(Identity.OPERATOR, "ben") as operator:
        assert await refused(operator.list(named(lease))) is Reason.NOT_FOUND


async def test_the_agent_goes_on_having_what_an_operator_uses(
    executor: Executor,
    agent: Client,
    operator: Client,
    lease: Lease,
    caplog: pytest.LogCaptureFixture,
) -> None:
    uses = executor.metric(USES)
    with caplog.at_level(logging.INFO, "executor_service.sandboxes.sandbox"):
        assert await operator.output(named(lease), "echo here >mark; pwd") == "/workspace"
    assert executor.metric(USES) >= uses + 2
    audits = [record.getMessage() for record in caplog.records if "operator" in record.getMessage()]
    assert audits
    assert all(f"{lease.sandbox_id} of anna" in line for line in audits)
    assert await agent.output(lease, "cat mark") == "here"
    assert len(await operator.list(named(lease))) == 2


async def test_a_shell_of_an_operator_outlives_a_change_of_owner(
    agent: Client, operator: Client, lease: Lease
) -> None:
    started = await operator.start(named(lease), script="read a; echo got $a", stdin=True)
    async with operator.attach(named(lease), started.exec_id) as shell:
        session = (await agent.sandboxes.GetSandbox(_about(lease))).sandbox.session_id
        successor = (await agent.acquire(session)).lease
        assert successor.epoch == lease.epoch + 1
        stdin = exec_pb2.AttachExecRequest.Stdin(offset=0, data=b"it\n")
        await shell.write(exec_pb2.AttachExecRequest(stdin=stdin))
        written = b""
        async for message in shell:
            written += message.output.data
            if message.HasField("exited"):
                break
    assert written == b"got it\n"
    lease.CopyFrom(successor)


async def test_looking_on_does_not_prolong_a_sandbox_s_life(
    agent: Client, operator: Client
) -> None:
    lease = (await agent.acquire(idle_ttl=Duration(seconds=600))).lease

    async def left_s() -> float:
        sandbox = (await agent.sandboxes.GetSandbox(_about(lease))).sandbox
        return sandbox.expires_in.ToTimedelta().total_seconds()

    before = await left_s()
    await operator.list(named(lease))
    await asyncio.sleep(0.2)
    after = await left_s()
    assert after < before - 0.1
    await agent.list(lease)
    assert await left_s() > after
    await operator.release(named(lease))
    assert await refused(agent.output(lease, "true")) is Reason.LEASE_INVALID


async def test_only_an_operator_sees_the_sandboxes_of_all_profiles(
    executor: Executor, agent: Client, operator: Client, lease: Lease
) -> None:
    everything = sandbox_pb2.ListSandboxesRequest(all_profiles=True)
    assert await refused(agent.sandboxes.ListSandboxes(everything)) is Reason.PERMISSION_DENIED
    async with executor.client(profile="ben") as ben:
        other = (await ben.acquire()).lease
        listed = (await operator.sandboxes.ListSandboxes(everything)).sandboxes
        found = {one.sandbox_id: one.profile for one in listed}
        assert found == {lease.sandbox_id: "anna", other.sandbox_id: "ben"}
        await ben.release(other)


def _about(lease: Lease) -> sandbox_pb2.GetSandboxRequest:
    return sandbox_pb2.GetSandboxRequest(sandbox_id=lease.sandbox_id, profile="anna")
