"""Workspaces: which session has which, copies of them, and their end, with boxes of bubblewrap."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from executor_service.journal import Journal
from executor_service.workspaces.catalog import Catalog, WorkspaceState
from hermes.executor.v1 import sandbox_pb2, workspace_pb2
from services.config.settings import Settings
from services.errors import Reason, details_of, message_of
from tests.support.executor_client import Client
from tests.support.executors import (
    Process,
    end_boxes,
    executor_settings,
    refused,
    serving,
    started,
    until,
)
from tests.support.workspace_client import Workspaces

READY = workspace_pb2.WORKSPACE_STATE_READY
MAKING = workspace_pb2.WORKSPACE_STATE_MAKING
MIB = 1024 * 1024


async def filled(client: Client, session_id: str, script: str = "echo kept > file") -> str:
    """A workspace that a session has left behind."""
    lease = (answer := await client.acquire(session_id)).lease
    await client.output(lease, script)
    await client.release(lease)
    return answer.sandbox.workspace_id


async def content(client: Client, workspace_id: str, script: str = "cat file") -> str:
    """What a sandbox over a workspace finds in it."""
    lease = (await client.acquire(workspace_id=workspace_id)).lease
    try:
        return await client.output(lease, script)
    finally:
        await client.release(lease)


async def why(call: "grpc.aio.Call | object") -> str:
    """What is said of a call that fails."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # pyright: ignore[reportGeneralTypeIssues]
    return message_of(caught.value)


async def test_a_session_s_workspace_has_a_name_and_a_life_of_its_own(tmp_path: Path) -> None:
    async with started(tmp_path) as (_, client):
        workspaces = Workspaces(client)
        answer = await client.acquire("s")
        ident = answer.sandbox.workspace_id
        assert ident.startswith("wsp_")
        await client.output(answer.lease, "echo kept > file")
        (found,) = await workspaces.all()
        assert (found.workspace_id, found.state, found.backend) == (ident, READY, "bubblewrap")
        assert (list(found.session_ids), list(found.active_session_ids)) == (["s"], ["s"])
        said = await why(workspaces.delete(ident))
        assert "in use by session s" in said
        await client.release(answer.lease)
        again = await client.acquire("s")
        assert again.sandbox.workspace_id == ident
        assert await client.output(again.lease, "cat file") == "kept"
        await client.release(again.lease)
        await workspaces.delete(ident)
        assert ident not in {one.workspace_id for one in await workspaces.all()}
        assert await refused(workspaces.delete(ident)) is Reason.NOT_FOUND
        assert not await asyncio.to_thread((tmp_path / "workspaces" / ident).exists)
        # The session goes on with another one.
        later = await client.acquire("s")
        assert later.sandbox.workspace_id not in ("", ident)
        assert await client.output(later.lease, "ls -A") == ""


async def test_a_workspace_can_end_with_its_sandbox(tmp_path: Path) -> None:
    async with started(tmp_path) as (_, client):
        workspaces = Workspaces(client)
        first = await client.acquire("s")
        ident = first.sandbox.workspace_id
        other = await client.acquire("another", workspace_id=ident)
        await client.output(first.lease, "mkdir full; echo kept > full/file")
        said = await why(client.release(first.lease, deletes_workspace=True))
        assert "in use by session another" in said
        assert await client.output(other.lease, "cat full/file") == "kept"
        await client.release(other.lease, deletes_workspace=True)
        assert ident not in {one.workspace_id for one in await workspaces.all()}
        assert not await asyncio.to_thread((tmp_path / "workspaces" / ident).exists)


async def test_a_session_may_have_a_given_one(tmp_path: Path) -> None:
    async with started(tmp_path) as (executor, client):
        workspaces = Workspaces(client)
        made = await workspaces.create("project", "r1")
        assert (made.name, made.state, list(made.session_ids)) == ("project", READY, [])
        assert (await workspaces.create("project", "r1")).workspace_id == made.workspace_id
        ident = made.workspace_id
        first = await client.acquire("one", workspace_id=ident)
        assert first.sandbox.workspace_id == ident
        await client.output(first.lease, "echo shared > file")
        second = await client.acquire("two", workspace_id=ident)
        assert await client.output(second.lease, "cat file") == "shared"
        assert list((await workspaces.get(ident)).active_session_ids) == ["one", "two"]
        await client.release(second.lease)
        # It is the session's own from now on.
        assert (await client.acquire("two")).sandbox.workspace_id == ident
        other = await workspaces.create()
        asked = client.acquire("one", workspace_id=other.workspace_id)
        assert await refused(asked) is Reason.FAILED_PRECONDITION
        async with executor.client(profile="stranger") as stranger:
            foreign = await why(stranger.acquire(workspace_id=ident))
            missing = await why(stranger.acquire(workspace_id="wsp_missing"))
            assert foreign.replace(ident, "") == missing.replace("wsp_missing", "")
            theirs = Workspaces(stranger)
            assert await theirs.all() == []
            for call in (theirs.delete, theirs.fork, theirs.snapshot):
                assert await refused(call(ident)) is Reason.NOT_FOUND
        assert await refused(client.acquire("one", workspace_id="nothing")) is Reason.NOT_FOUND


async def test_a_fork_has_all_and_shares_nothing(tmp_path: Path) -> None:
    async with started(tmp_path) as (_, client):
        workspaces = Workspaces(client)
        source = await filled(
            client, "s", "mkdir -p a/b; echo kept > a/b/file; ln -s /etc out; mkfifo pipe"
        )
        fork = await workspaces.fork(source, "r")
        assert (fork.source_id, fork.state) == (source, READY)
        assert fork.size_bytes > 0
        assert (await workspaces.fork(source, "r")).workspace_id == fork.workspace_id
        script = "cat a/b/file; readlink out; ls; echo changed > a/b/file"
        assert await content(client, fork.workspace_id, script) == "kept\n/etc\na\nout"
        assert await content(client, source, "cat a/b/file") == "kept"
        assert {one.workspace_id for one in await workspaces.all()} == {source, fork.workspace_id}
        assert await refused(workspaces.fork("wsp_missing")) is Reason.NOT_FOUND
        assert await refused(workspaces.create(request_id="r")) is Reason.ALREADY_EXISTS
        # The copy is one's own also when its source has gone.
        await workspaces.delete(source)
        assert await content(client, fork.workspace_id, "cat a/b/file") == "changed"


async def test_a_snapshot_stays_as_it_was(tmp_path: Path) -> None:
    async with started(tmp_path) as (_, client):
        workspaces = Workspaces(client)
        source = await filled(client, "s")
        snapshot = await workspaces.snapshot(source)
        assert (snapshot.workspace_id, snapshot.state) == (source, READY)
        assert await content(client, source, "echo later > file; cat file") == "later"
        ident = snapshot.snapshot_id
        assert await refused(client.acquire(workspace_id=ident)) is Reason.NOT_FOUND
        assert ident not in {one.workspace_id for one in await workspaces.all()}
        first, second = await asyncio.gather(workspaces.fork(ident), workspaces.fork(ident))
        assert await content(client, first.workspace_id, "cat file; echo x > file") == "kept"
        assert await content(client, second.workspace_id) == "kept"
        assert [one.snapshot_id for one in await workspaces.snapshots(source)] == [ident]
        assert await workspaces.snapshots("wsp_other") == []
        await workspaces.delete(source)
        assert await content(client, (await workspaces.fork(ident)).workspace_id) == "kept"
        await workspaces.delete_snapshot(ident)
        assert await workspaces.snapshots() == []
        assert await refused(workspaces.fork(ident)) is Reason.NOT_FOUND
        backends = (
            await client.sandboxes.GetCapabilities(sandbox_pb2.GetCapabilitiesRequest())
        ).backends
        assert list(backends[0].snapshot_kinds) == [sandbox_pb2.SNAPSHOT_KIND_WORKSPACE_COPY]


async def test_a_copy_is_used_when_it_is_complete(tmp_path: Path) -> None:
    async with started(tmp_path) as (_, client):
        workspaces = Workspaces(client)
        source = await filled(client, "s", "for n in $(seq 20000); do : > $n; done")
        copying = asyncio.ensure_future(workspaces.fork(source))

        async def begun() -> bool:
            return any(one.state == MAKING for one in await workspaces.all())

        await until(begun)
        (making,) = [one for one in await workspaces.all() if one.state == MAKING]
        for ident in (source, making.workspace_id):
            assert await refused(workspaces.delete(ident)) is Reason.FAILED_PRECONDITION
        acquired = client.acquire(workspace_id=making.workspace_id)
        assert await refused(acquired) is Reason.NOT_FOUND
        assert (await copying).workspace_id == making.workspace_id
        await workspaces.delete(making.workspace_id)
        assert await names(tmp_path) == {source}


async def names(home: Path) -> set[str]:
    """What there is of all workspaces."""
    found = await asyncio.to_thread(lambda: list((home / "workspaces").iterdir()))
    return {path.name for path in found}


async def test_what_a_session_leaves_empty_goes(tmp_path: Path) -> None:
    async with started(tmp_path) as (executor, client):
        workspaces = Workspaces(client)
        kept, made = await filled(client, "s"), await workspaces.create()
        assert await content(client, made.workspace_id, "ls -A") == ""
        empty = await filled(client, "t", "true")

        async def is_gone() -> bool:
            return empty not in {one.workspace_id for one in await workspaces.all()}

        await until(is_gone)
        assert {one.workspace_id for one in await workspaces.all()} == {kept, made.workspace_id}
        assert await names(tmp_path) >= {kept}
        assert empty not in await names(tmp_path)
        assert executor.metric("hermes_workspaces_removed_total", reason="empty") == 1
        await until(lambda: executor.metric("hermes_workspaces") == 2)
        size = (await workspaces.get(kept)).size_bytes
        assert 0 < size == executor.metric("hermes_workspace_bytes")
        assert (await client.acquire("t")).sandbox.workspace_id != empty


async def test_what_was_not_used_for_too_long_goes(tmp_path: Path) -> None:
    environ = {"HERMES_KEEP_SANDBOXES": "true"}
    settings = executor_settings(tmp_path, "bubblewrap", **environ)
    async with serving(settings) as executor, executor.client() as client:
        old, used = await filled(client, "old"), await filled(client, "used")
        held = (await client.acquire("held")).sandbox.workspace_id
        snapshot = await Workspaces(client).snapshot(old)
    await set_back(tmp_path, 3 * 24 * 3600, old, held, snapshot.snapshot_id)
    environ["HERMES_WORKSPACES_RETENTION_DAYS"] = "2"
    settings = executor_settings(tmp_path, "bubblewrap", **environ)
    async with serving(settings) as executor, executor.client() as client:
        workspaces = Workspaces(client)
        await until(
            lambda: executor.metric("hermes_workspaces_removed_total", reason="retention") == 2
        )
        # The sandbox over it lives on.
        assert {one.workspace_id for one in await workspaces.all()} == {used, held}
        assert await workspaces.snapshots() == []
        assert await names(tmp_path) == {used, held}
        assert (await client.acquire("held")).sandbox.workspace_id == held
    await end_boxes(settings)


async def set_back(home: Path, seconds: float, *workspace_ids: str) -> None:
    """Makes workspaces older than they are."""
    async with written_down(home) as catalog:
        for workspace_id in workspace_ids:
            found = catalog.get(workspace_id)
            assert found is not None
            await catalog.change(workspace_id, used_at=found.used_at - seconds)


@asynccontextmanager
async def written_down(home: Path) -> AsyncGenerator[Catalog]:
    """What is known of workspaces while no executor runs."""
    async with Journal(home / "state" / "executor" / "journal.db") as journal:
        catalog = Catalog(journal, home / "workspaces", 0)
        await catalog.load()
        yield catalog


async def test_a_profile_has_only_so_much(tmp_path: Path) -> None:
    async with started(tmp_path, HERMES_WORKSPACES_TOTAL_BYTES=str(4 * MIB)) as (executor, client):
        workspaces = Workspaces(client)
        large = await filled(client, "s", "head -c 3M /dev/urandom > large")

        async def is_measured() -> bool:
            return (await workspaces.get(large)).size_bytes > 0

        await until(is_measured)
        fork = await workspaces.fork(large)
        calls = (client.acquire(), workspaces.create(), workspaces.fork(large))
        for call in (*calls, workspaces.snapshot(large)):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            details = details_of(caught.value)
            assert details.reason is Reason.LIMIT_EXCEEDED
            assert "executor.workspaces.total_bytes" in details.message
        # Who has one may go on, and others have a quota of their own.
        assert await content(client, large, "ls") == "large"
        async with executor.client(profile="other") as other:
            await other.release((await other.acquire()).lease)
        await workspaces.delete(fork.workspace_id)
        await client.release((await client.acquire()).lease)


@pytest.fixture
async def settings(tmp_path: Path) -> AsyncGenerator[Settings]:
    """Those of an executor that is killed; no box is left at the end."""
    settings = executor_settings(tmp_path, "bubblewrap", HERMES_KEEP_SANDBOXES="true")
    yield settings
    await end_boxes(settings)


async def test_an_executor_that_is_killed_in_a_copy_leaves_nothing_of_it(
    settings: Settings, tmp_path: Path
) -> None:
    many = "for n in $(seq 20000); do echo $n > $n; done"
    async with Process(settings) as process, process.client() as client:
        workspaces = Workspaces(client)
        source = await filled(client, "s", many)
        copying = asyncio.ensure_future(workspaces.fork(source, "r"))

        async def begun() -> bool:
            return any(name.startswith(".part-") for name in await names(tmp_path))

        await until(begun)
        await process.kill()
        assert await refused(copying) is Reason.SERVICE_UNAVAILABLE
    async with Process(settings) as process, process.client() as client:
        workspaces = Workspaces(client)

        async def is_cleared() -> bool:
            return await names(tmp_path) == {source} and len(await workspaces.all()) == 1

        await until(is_cleared)
        fork = await workspaces.fork(source, "r")
        assert await content(client, fork.workspace_id, "ls | wc -l; cat 777") == "20000\n777"


async def test_an_executor_that_is_killed_in_a_removal_finishes_it(
    settings: Settings, tmp_path: Path
) -> None:
    many = "seq 60000 | xargs touch"
    async with Process(settings) as process, process.client() as client:
        source = await filled(client, "s", many)
        folder = tmp_path / "workspaces" / source
        removing = asyncio.ensure_future(Workspaces(client).delete(source))

        async def begun() -> bool:
            return len(await asyncio.to_thread(os.listdir, folder)) < 60_000

        await until(begun)
        await process.kill()
        assert await refused(removing) is Reason.SERVICE_UNAVAILABLE
    async with written_down(tmp_path) as catalog:
        (going,) = [one for one in catalog if one.state is WorkspaceState.REMOVING]
        assert going.workspace_id == source
    # What was left comes back whole, as if nothing of it had been removed yet.
    await asyncio.to_thread(refill, folder)
    async with Process(settings) as process, process.client() as client:
        answer = await client.acquire("s")
        assert answer.sandbox.workspace_id != source
        assert await client.output(answer.lease, "ls -A") == ""

        async def is_gone() -> bool:
            found = await Workspaces(client).all()
            return [one.workspace_id for one in found] == [answer.sandbox.workspace_id]

        await until(is_gone)
        assert source not in await names(tmp_path)
        await client.release(answer.lease)


def refill(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number in range(100):
        (folder / str(number)).touch()
