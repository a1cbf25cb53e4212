"""Workspaces on another machine: none piles up there, and all is done with them as here."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from hermes.executor.v1 import exec_pb2, file_pb2, sandbox_pb2
from services.config.settings import Settings
from services.errors import Reason
from tests.support.executor_client import Client
from tests.support.executors import end_boxes, executor_settings, refused, serving, until
from tests.support.ssh_server import SshServer, ssh_server
from tests.support.workspace_client import Workspaces

pytestmark = pytest.mark.slow

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server() -> Iterator[SshServer]:
    """A machine."""
    with ssh_server() as running:
        yield running


@pytest.fixture
async def settings(server: SshServer, tmp_path: Path) -> AsyncIterator[Settings]:
    """Those of an executor that uses the machine, with one box ready; none is left at the end."""
    environ = {**server.environ, "HERMES_WARM_POOL_SIZE": "1"}
    settings = executor_settings(tmp_path, "ssh", **environ)
    yield settings
    await end_boxes(settings)


async def there(server: SshServer) -> set[str]:
    """The workspaces on the machine."""
    folder = Path(server.options.folder) / "workspaces"
    found = await asyncio.to_thread(lambda: [*folder.iterdir()] if folder.exists() else [])
    return {path.name for path in found}


async def test_nothing_piles_up_there(server: SshServer, settings: Settings) -> None:
    async with serving(settings) as executor, executor.client() as client:
        workspaces = Workspaces(client)
        answer = await client.acquire("s")
        kept = answer.sandbox.workspace_id
        await client.output(answer.lease, "echo kept > file")
        await client.release(answer.lease)
        fork = (await workspaces.fork(kept)).workspace_id
        assert {kept, fork} <= await there(server)
        # One that is used for nothing goes, and so does that of a box which nobody has claimed:
        # the next with files takes its place.
        empty = await client.acquire("t")
        await client.release(empty.lease)
        second = await client.acquire(workspace_id=fork)
        assert await client.output(second.lease, "cat file") == "kept"
        await client.release(second.lease)

        async def is_gone() -> bool:
            return empty.sandbox.workspace_id not in await there(server)

        await until(is_gone)
        snapshot = (await workspaces.snapshot(kept)).snapshot_id
        await workspaces.delete(kept)
        assert kept not in await there(server)
        again = (await workspaces.fork(snapshot)).workspace_id
        await workspaces.delete_snapshot(snapshot)
        ready = await there(server) - {fork, again}
        assert len(ready) <= 1
        assert {one.workspace_id for one in await workspaces.all()} == {fork, again}
        # As if the machine were away: nothing is forgotten of what is still there.
        await asyncio.to_thread(server.stop)
        assert await refused(workspaces.fork(fork)) is Reason.BACKEND_UNAVAILABLE
        assert await refused(workspaces.delete(again)) is Reason.SERVICE_UNAVAILABLE
        await asyncio.to_thread(server.start)
        assert again in await there(server)
        await workspaces.delete(again)
        assert again not in await there(server)
    # That of the box which was ready goes as well.
    assert await there(server) == {fork}


async def test_one_that_another_executor_s_sandbox_has_is_not_removed(
    server: SshServer, tmp_path: Path
) -> None:
    environ = {**server.environ, "HERMES_WORKSPACES_SHARED": "true"}
    one, two = [
        await asyncio.to_thread(executor_settings, tmp_path / name, "ssh", **environ)
        for name in ("one", "two")
    ]
    async with (
        serving(one) as first,
        serving(two) as second,
        first.client() as before,
        second.client() as after,
    ):
        workspaces = Workspaces(before)
        left = await before.acquire("s")
        ident = left.sandbox.workspace_id
        await before.output(left.lease, "echo kept > file")
        await before.release(left.lease)
        # Its session goes on at the other one.
        there_now = await after.acquire("s", earlier_workspace_id=ident)
        assert there_now.sandbox.workspace_id == ident
        assert await refused(workspaces.delete(ident)) is Reason.FAILED_PRECONDITION
        assert await after.output(there_now.lease, "cat file") == "kept"
        assert [found.workspace_id for found in await workspaces.all()] == [ident]
        # Nor does it go later, as what cannot be removed now would.
        await after.release(there_now.lease)
        back = await before.acquire("s", earlier_workspace_id=ident)
        assert await before.output(back.lease, "cat file") == "kept"
        await before.release(back.lease)
        await workspaces.delete(ident)
        assert ident not in await there(server)
    for settings in (one, two):
        await end_boxes(settings)


async def test_one_that_is_full_there_ends_what_fills_it(server: SshServer, tmp_path: Path) -> None:
    text = f"executor:\n  workspace_bytes: {4 * MIB}\n"
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, text)
    settings = await asyncio.to_thread(executor_settings, tmp_path, "ssh", **server.environ)
    try:
        async with serving(settings) as executor, executor.client() as client:
            answer = await client.sandboxes.GetCapabilities(sandbox_pb2.GetCapabilitiesRequest())
            assert answer.backends[0].disk_limit == sandbox_pb2.LIMIT_ENFORCEMENT_WATCHED
            fills, behaves = await client.acquire("fills"), await client.acquire("behaves")
            known = await Workspaces(client).all()
            assert [one.limit_bytes for one in known] == [4 * MIB, 4 * MIB]
            quiet = await client.start(behaves.lease, script="head -c 1M /dev/zero > x; sleep 60")
            script = "head -c 8M /dev/zero > large; sleep 60"
            seen = await client.run(fills.lease, script=script)
            assert seen.exit is not None
            assert seen.exit.reason == exec_pb2.EXIT_REASON_DISK_QUOTA
            still = await client.get(behaves.lease, quiet.exec_id)
            assert still.state == exec_pb2.EXEC_STATE_RUNNING
            # Nothing more is taken until something was removed.
            assert await refused(upload(client, fills.lease)) is Reason.LIMIT_EXCEEDED
            assert await client.output(fills.lease, "rm large; echo removed") == "removed"
            await upload(client, fills.lease)
            # Nor can anybody hide what it has.
            script = "mkdir -p $(printf 'd/%.0s' $(seq 250)); sleep 60"
            seen = await client.run(fills.lease, script=script)
            assert seen.exit is not None
            assert seen.exit.reason == exec_pb2.EXIT_REASON_DISK_QUOTA
            for one in (fills, behaves):
                await client.release(one.lease)
    finally:
        await end_boxes(settings)


async def upload(client: Client, lease: sandbox_pb2.Lease) -> None:
    """Write a small file."""
    data = b"data"
    header = file_pb2.UploadFileRequest.Header(
        lease=lease, path="file", length_bytes=len(data), sha256=sha256(data).digest()
    )
    messages = (file_pb2.UploadFileRequest(header=header), file_pb2.UploadFileRequest(chunk=data))
    await client.files.UploadFile(iter(messages))
