"""What every backend's boxes are to an executor: sandboxes that end in time, and keep limits."""

from google.protobuf.duration_pb2 import Duration

from executor_service.backends.base import MIB, WorkspacePlace
from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.errors import Reason
from tests.contract.executor_over import QUOTA_BYTES
from tests.support.boxes import Yard
from tests.support.executor_client import Client
from tests.support.executors import Executor, refused, until

TTL = Duration(seconds=3)
READY = sandbox_pb2.SANDBOX_STATE_READY
RELEASED = sandbox_pb2.SANDBOX_STATE_RELEASED
LOST = sandbox_pb2.SANDBOX_STATE_LOST
RUNNING = exec_pb2.EXEC_STATE_RUNNING

FILL = "head -c 67108864 /dev/zero >big; echo $?; wc -c <big"
"""Writes more than may be, and looks what comes of it."""

Acquired = sandbox_pb2.AcquireSandboxResponse


async def now(client: Client, acquired: Acquired) -> sandbox_pb2.Sandbox:
    """A sandbox as it is now."""
    asked = sandbox_pb2.GetSandboxRequest(sandbox_id=acquired.sandbox.sandbox_id)
    return (await client.sandboxes.GetSandbox(asked)).sandbox


async def how_workspaces_are_held(
    client: Client, backend: str
) -> sandbox_pb2.LimitEnforcement.ValueType:
    """What the executor reports."""
    asked = sandbox_pb2.GetCapabilitiesRequest()
    found = (await client.sandboxes.GetCapabilities(asked)).backends
    return next(one.disk_limit for one in found if one.name == backend)


async def check_next(client: Client, yard: Yard, before: Acquired) -> None:
    """The session has a new sandbox, over the same workspace where the backend keeps it."""
    later = await client.acquire(before.sandbox.session_id)
    assert later.sandbox.sandbox_id != before.sandbox.sandbox_id
    is_kept = yard.capabilities.workspaces is not WorkspacePlace.IN_BOX
    assert await client.output(later.lease, "cat file || true") == ("kept" if is_kept else "")
    await client.release(later.lease)


class SandboxSuite:
    """Run against an executor over each backend by tests/contract/test_backends.py."""

    async def test_a_sandbox_that_nobody_uses_ends_and_its_files_stay(
        self, executor: Executor, yard: Yard
    ) -> None:
        async with executor.client() as client:
            busy = await client.acquire(idle_ttl=TTL)
            running = (await client.start(busy.lease, "sleep", "600")).exec_id
            idle = await client.acquire(idle_ttl=TTL)
            await client.output(idle.lease, "echo kept > file")

            async def has_ended() -> bool:
                return (await now(client, idle)).state == RELEASED

            await until(has_ended)
            assert await refused(client.start(idle.lease, "true")) is Reason.LEASE_INVALID
            # A command that runs is use, also one that nobody is attached to.
            assert (await now(client, busy)).state == READY
            assert (await client.get(busy.lease, running)).state == RUNNING
            await client.release(busy.lease)
            await check_next(client, yard, idle)

    async def test_a_sandbox_ends_at_its_age_whatever_runs_and_its_files_stay(
        self, executor: Executor, yard: Yard
    ) -> None:
        async with executor.client() as client:
            old = await client.acquire(max_ttl=TTL)
            seen = await client.run(old.lease, script="echo kept > file; echo begun; sleep 600")
            assert seen.stdout == b"begun\n"
            assert seen.exit is not None
            assert seen.exit.reason == exec_pb2.EXIT_REASON_LEASE_EXPIRED
            assert not seen.exit.HasField("code")
            assert (await now(client, old)).state == RELEASED
            await check_next(client, yard, old)

    async def test_a_workspace_that_is_full_is_told_as_it_is_said(
        self, executor: Executor, yard: Yard
    ) -> None:
        async with executor.client() as client:
            held = await how_workspaces_are_held(client, yard.capabilities.name)
            full = await client.acquire()
            is_watched = held == sandbox_pb2.LIMIT_ENFORCEMENT_WATCHED
            seen = await client.run(full.lease, script=f"{FILL}; sleep 30" if is_watched else FILL)
            assert seen.exit is not None
            if is_watched:
                assert seen.exit.reason == exec_pb2.EXIT_REASON_DISK_QUOTA
                assert not seen.exit.HasField("code")
                await self._check_what_is_left(client, yard, full)
                return
            code, size = map(int, seen.stdout.split())
            if held == sandbox_pb2.LIMIT_ENFORCEMENT_KERNEL:
                assert code != 0
                assert size <= QUOTA_BYTES
            else:
                assert (code, size) == (0, 64 * MIB)
            await client.release(full.lease)

    async def _check_what_is_left(self, client: Client, yard: Yard, full: Acquired) -> None:
        """The sandbox goes on where the executor looks; elsewhere all of it has ended."""
        if yard.has_folders or yard.capabilities.measures_workspaces:
            assert await client.output(full.lease, "rm big; echo again") == "again"
            await client.release(full.lease)
            return
        assert (await now(client, full)).state == LOST
        assert await refused(client.start(full.lease, "true")) is Reason.SANDBOX_LOST
        later = await client.acquire(full.sandbox.session_id)
        assert await client.output(later.lease, "ls -A; echo new") == "new"
        await client.release(later.lease)
