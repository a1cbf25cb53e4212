"""Who has which sandbox and for how long, with real boxes of bubblewrap."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from hermes.executor.v1 import sandbox_pb2
from services.errors import Reason
from tests.support.executor_client import Client
from tests.support.executors import end_boxes, executor_settings, refused, serving, started, until
from tests.support.requirements import require

COLD = sandbox_pb2.LAUNCH_KIND_COLD
RESUMED = sandbox_pb2.LAUNCH_KIND_RESUMED


async def test_a_session_keeps_its_sandbox_and_the_latest_owner_has_it(tmp_path: Path) -> None:
    async with started(tmp_path) as (executor, client):
        first = await client.acquire("s", request_id="r1")
        assert (first.launch, first.lease.epoch, len(first.lease.token)) == (COLD, 1, 64)
        await client.output(first.lease, "echo kept > /tmp/file")
        again = await client.acquire("s", request_id="r1")
        assert (again.lease.epoch, again.lease.token) == (1, first.lease.token)
        second = await client.acquire("s", request_id="r2")
        assert second.sandbox.sandbox_id == first.sandbox.sandbox_id
        assert (second.launch, second.lease.epoch) == (RESUMED, 2)
        assert second.lease.token != first.lease.token
        assert await client.output(second.lease, "cat /tmp/file") == "kept"
        assert await refused(client.start(first.lease, "true")) is Reason.STALE_EPOCH
        assert await refused(client.release(first.lease)) is Reason.STALE_EPOCH
        assert executor.metric("hermes_stale_epoch_rejections_total") == 2
        other = await client.acquire("another")
        assert other.sandbox.sandbox_id != first.sandbox.sandbox_id


async def test_what_is_released_is_nobody_s_but_the_files_stay(tmp_path: Path) -> None:
    async with started(tmp_path, HERMES_WARM_POOL_SIZE="1") as (executor, client):
        labels = {"backend": "bubblewrap", "template": "default", "state": "ready"}
        await until(lambda: executor.metric("hermes_sandbox_pool", **labels) == 1)
        first = await client.acquire("s")
        assert first.launch == sandbox_pb2.LAUNCH_KIND_WARM
        await client.output(first.lease, "echo mine > file; touch /tmp/left")
        await client.release(first.lease)
        await client.release(first.lease)
        second = await client.acquire("s")
        assert await client.output(second.lease, "cat file; ls /tmp") == "mine"
        released = await client.sandboxes.GetSandbox(
            sandbox_pb2.GetSandboxRequest(sandbox_id=first.sandbox.sandbox_id)
        )
        assert released.sandbox.state == sandbox_pb2.SANDBOX_STATE_RELEASED
        listed = await client.sandboxes.ListSandboxes(sandbox_pb2.ListSandboxesRequest())
        assert [one.sandbox_id for one in listed.sandboxes] == [second.sandbox.sandbox_id]
        assert await refused(client.start(first.lease, "true")) is Reason.LEASE_INVALID


async def test_what_has_ended_can_still_be_read(tmp_path: Path) -> None:
    async with started(tmp_path) as (_, client):
        idle = await client.acquire("idle", idle_ttl=Duration(seconds=1))
        done = (await client.run(idle.lease, script="echo output")).opened.exec_id

        async def has_ended() -> bool:
            return await state(client, idle) != sandbox_pb2.SANDBOX_STATE_READY

        await until(has_ended)
        assert (await client.read(idle.lease, done, 0, 100)).data == b"output\n"
        assert (await client.follow(idle.lease, done)).stdout == b"output\n"
        assert [one.exec_id for one in await client.list(idle.lease)] == [done]


async def test_only_harmless_folders_are_bound(tmp_path: Path) -> None:
    around = tmp_path / "user"
    home = around / ".hermes"
    harmful = ["relative", "/", "/nowhere", "/etc/passwd"]
    harmful += map(str, (Path.home(), home / "workspaces", around))
    async with started(home, HERMES_ALLOW_WORKDIR="true") as (_, client):
        for asked in harmful:
            assert await refused(client.acquire(workdir=asked)) is Reason.PATH_INVALID, asked
        listed = await client.sandboxes.ListSandboxes(sandbox_pb2.ListSandboxesRequest())
        assert not listed.sandboxes


async def test_a_folder_of_the_host_is_bound_where_that_is_allowed(tmp_path: Path) -> None:
    folder = await asyncio.to_thread(make_project, tmp_path)
    async with started(tmp_path / "home", HERMES_ALLOW_WORKDIR="true") as (_, client):
        answer = await client.acquire("s", workdir=str(folder))
        assert answer.launch == COLD
        assert await client.output(answer.lease, "cat hello; echo changed > hello") == "hello"
        await client.release(answer.lease)
        assert await asyncio.to_thread((folder / "hello").read_text) == "changed\n"
        # It is not what the session's own workspace is from now on.
        answer = await client.acquire("s")
        assert await client.output(answer.lease, "ls -A") == ""
    async with started(tmp_path / "home") as (_, client):
        assert await refused(client.acquire(workdir=str(folder))) is Reason.PATH_INVALID


@pytest.mark.parametrize("backend", ["docker", "bubblewrap"])
@pytest.mark.parametrize("owner", [0, 1234])
async def test_a_bound_folder_keeps_its_owner(tmp_path: Path, backend: str, owner: int) -> None:
    require("root", os.geteuid() == 0, "only root can have folders of several users")
    folder = await asyncio.to_thread(make_private, tmp_path, owner)
    settings = await asyncio.to_thread(
        executor_settings, tmp_path / "home", backend, HERMES_ALLOW_WORKDIR="true"
    )
    async with serving(settings) as executor, executor.client() as client:
        lease = (await client.acquire("s", workdir=str(folder))).lease
        inside = str(owner) if backend == "docker" else "1000"
        script = "cat secret; stat -c %u . secret; echo changed >secret; mkdir new; echo >new/x"
        seen = await client.output(lease, script)
        assert seen.split() == ["mine", inside, inside]
        assert await client.output(lease, "id -u; grep CapEff /proc/self/status") == (
            f"{inside}\nCapEff:\t0000000000000000"
        )
        usual = (await client.acquire("other")).lease
        more = {*(await client.output(lease, FIND_WRITABLE)).split()}
        # Only a capability, which no command has, changes those registers.
        assert more <= {*(await client.output(usual, FIND_WRITABLE)).split(), "/proc/mtrr"}
        await client.release(lease)
        await client.release(usual)
    await end_boxes(settings)
    assert await asyncio.to_thread(owners, folder) == {owner}
    assert await asyncio.to_thread((folder / "secret").read_text) == "changed\n"


async def test_what_is_asked_for_is_checked(tmp_path: Path) -> None:
    async with started(tmp_path) as (_, client):
        wrong: list[dict[str, Any]] = [
            {"request_id": ""},
            {"request_id": "a b"},
            {"session_id": "../x"},
            {"wait": Duration(seconds=301)},
            {"idle_ttl": Duration(seconds=-1)},
        ]
        for fields in wrong:
            assert await refused(client.acquire(**fields)) is Reason.INVALID_ARGUMENT
        strong = sandbox_pb2.ISOLATION_LEVEL_MICROVM
        assert await refused(client.acquire(min_isolation=strong)) is Reason.BACKEND_UNAVAILABLE
        namespace = sandbox_pb2.ISOLATION_LEVEL_NAMESPACE
        assert (await client.acquire(min_isolation=namespace)).lease.epoch == 1


FIND_WRITABLE = (
    "find /proc /sys -path '/proc/[0-9]*' -prune -o -path '/proc/*self' -prune "
    "-o '(' -type f -o -type d ')' -writable ! -exec test -c {} ';' -print 2>/dev/null; :"
)
"""Lists what commands could change in the kernel."""


def make_private(folder: Path, owner: int) -> Path:
    """A folder of a user with a file that only they can read."""
    private = folder / "private"
    private.mkdir(mode=0o700)
    (private / "secret").write_text("mine\n")
    (private / "secret").chmod(0o600)
    for path in (private, private / "secret"):
        os.chown(path, owner, owner)
    return private


def owners(folder: Path) -> set[int]:
    """Who owns a folder and all that is in it."""
    return {path.stat().st_uid for path in (folder, *folder.rglob("*"))}


def make_project(folder: Path) -> Path:
    """A folder of a user with a file; boxes of an executor that is root are not root."""
    project = folder / "project"
    project.mkdir()
    (project / "hello").write_text("hello\n")
    if os.geteuid() == 0:
        for path in (project, project / "hello"):
            os.chown(path, 1000, 1000)
    return project


async def state(
    client: Client, answer: sandbox_pb2.AcquireSandboxResponse
) -> "sandbox_pb2.SandboxState.ValueType":
    request = sandbox_pb2.GetSandboxRequest(sandbox_id=answer.sandbox.sandbox_id)
    return (await client.sandboxes.GetSandbox(request)).sandbox.state
