"""An executor that is killed: the next one finds its boxes, claims, commands and output again."""

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from executor_service.backends.base import BoxSpec, Limits
from executor_service.backends.bubblewrap.backend import BubblewrapBackend
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.journal import Journal
from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.config.settings import Settings
from services.errors import Reason
from tests.support.boxes import BUBBLEWRAP_FIRST, new_spec
from tests.support.executor_client import Client
from tests.support.executors import Process, end_boxes, executor_settings, refused, until

PIECES = 500
PIECE_BYTES = 16 * 1024
WRITER = f"""
import hashlib, os, time
digest = hashlib.sha256()
open("starts", "a").write("x")
for number in range({PIECES}):
    data = hashlib.sha256(b"%d" % number).digest() * {PIECE_BYTES // 32}
    digest.update(data)
    os.write(1, data)
    time.sleep(0.005)
os.write(2, digest.hexdigest().encode())
"""
"""Writes piece after piece, and at last to standard error what it all was."""


def settings_of(home: Path, backend: str, **environ: str) -> Settings:
    return executor_settings(home, backend, HERMES_KEEP_SANDBOXES="true", **environ)


@pytest.fixture(params=BUBBLEWRAP_FIRST)
async def settings(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Settings]:
    """Those of each backend in turn; no box is left at the end."""
    settings = settings_of(tmp_path, request.param)
    yield settings
    await end_boxes(settings)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Settings]:
    """Those of bubblewrap; no box is left at the end."""
    settings = settings_of(tmp_path, "bubblewrap")
    yield settings
    await end_boxes(settings)


@asynccontextmanager
async def lifetime(settings: Settings) -> AsyncGenerator[tuple[Process, Client]]:
    """An executor's life, which ends by SIGKILL."""
    async with Process(settings) as process, process.client() as client:
        yield process, client
        await process.kill()


async def has_output(client: Client, lease: sandbox_pb2.Lease, *exec_ids: str) -> bool:
    return all([(await client.read(lease, exec_id, 0, 1)).data for exec_id in exec_ids])


async def test_running_commands_go_on_and_lose_nothing(settings: Settings) -> None:
    commands = ("one", "two")
    async with lifetime(settings) as (_, client):
        lease = (await client.acquire("s")).lease
        for exec_id in commands:
            await client.start(lease, "python3", "-c", WRITER, exec_id=exec_id)
        await until(lambda: has_output(client, lease, *commands))
    for _ in range(2):
        async with lifetime(settings) as (_, client):
            assert {one.exec_id for one in await client.list(lease)} == set(commands)
    async with lifetime(settings) as (_, client):
        known = {one.exec_id: one for one in await client.list(lease)}
        # Asking for it again starts nothing.
        again = await client.start(lease, "python3", "-c", WRITER, exec_id="one")
        assert again.start_time == known["one"].start_time
        other = client.start(lease, "true", exec_id="one")
        assert await refused(other) is Reason.ALREADY_EXISTS
        for seen in await asyncio.gather(*(client.follow(lease, name) for name in commands)):
            assert (seen.code, len(seen.stdout), seen.dropped) == (0, PIECES * PIECE_BYTES, [])
            assert hashlib.sha256(seen.stdout).hexdigest() == seen.stderr.decode()
        assert await client.output(lease, "cat starts") == "xx"


async def test_what_had_just_begun_loses_nothing(here: Settings) -> None:
    for name in ("one", "two"):
        async with lifetime(here) as (_, client):
            lease = (await client.acquire("s")).lease
            await client.start(lease, script="echo begun; sleep 0.2; echo ended", exec_id=name)
            while not await has_output(client, lease, name):
                pass
        # Its output is stored, and its start was not noted yet.
        async with lifetime(here) as (_, client):
            seen = await client.follow((await client.acquire("s")).lease, name)
            assert (seen.stdout, seen.dropped) == (b"begun\nended\n", [])


async def test_what_ended_is_still_known(settings: Settings) -> None:
    async with lifetime(settings) as (_, client):
        lease = (await client.acquire("s")).lease
        before = await client.run(lease, script="echo before; exit 3")
        await client.start(lease, script="sleep 0.3; echo meanwhile; exit 4", exec_id="meanwhile")
    await asyncio.sleep(0.5)
    async with lifetime(settings) as (_, client):
        found = await client.get(lease, before.opened.exec_id)
        assert found.exit == before.exit
        assert (await client.follow(lease, found.exec_id)).stdout == b"before\n"
        seen = await client.follow(lease, "meanwhile")
        assert (seen.stdout, seen.code) == (b"meanwhile\n", 4)


async def test_a_lease_survives_and_is_taken_over(here: Settings) -> None:
    async with lifetime(here) as (_, client):
        first = await client.acquire("s", request_id="r")
        await client.output(first.lease, "echo x > /tmp/file")
    async with lifetime(here) as (_, client):
        assert await client.output(first.lease, "cat /tmp/file") == "x"
        # Who heard nothing and asks again has the same lease; another one is its successor.
        assert (await client.acquire("s", request_id="r")).lease.token == first.lease.token
        second = await client.acquire("s")
        assert second.launch == sandbox_pb2.LAUNCH_KIND_RESUMED
        assert (second.sandbox.sandbox_id, second.lease.epoch) == (first.sandbox.sandbox_id, 2)
        assert await refused(client.start(first.lease, "true")) is Reason.STALE_EPOCH
    async with lifetime(here) as (_, client):
        assert await refused(client.start(first.lease, "true")) is Reason.STALE_EPOCH
        assert await client.output(second.lease, "cat /tmp/file") == "x"


async def test_a_box_that_went_meanwhile_is_lost(here: Settings) -> None:
    async with lifetime(here) as (_, client):
        answer = await client.acquire("s")
        await client.output(answer.lease, "echo kept > file")
        await client.start(answer.lease, script="echo begun; sleep 60", exec_id="x")
        await until(lambda: has_output(client, answer.lease, "x"))
        await asyncio.sleep(0.2)  # its start is noted by then
    for record in await boxes_of(here):
        os.kill(record["first"]["pid"], signal.SIGKILL)
    async with lifetime(here) as (_, client):
        found = await client.get(answer.lease, "x")
        assert found.exit.reason == exec_pb2.EXIT_REASON_SANDBOX_LOST
        assert (await client.follow(answer.lease, "x")).stdout == b"begun\n"
        assert await refused(client.get(answer.lease, "unknown")) is Reason.SANDBOX_LOST
        assert await refused(client.start(answer.lease, "true")) is Reason.SANDBOX_LOST
        again = await client.acquire("s")
        assert (again.launch, again.lease.epoch) == (sandbox_pb2.LAUNCH_KIND_COLD, 1)
        assert await client.output(again.lease, "cat file") == "kept"


async def test_boxes_that_nobody_has_are_ended_and_those_of_others_are_not(here: Settings) -> None:
    async def there_are(*keys: str) -> bool:
        return sorted(record["key"] for record in await boxes_of(here)) == sorted(keys)

    async def is_full() -> bool:
        return len(await boxes_of(here)) == 2

    warm = settings_of(here.home.root, "bubblewrap", HERMES_WARM_POOL_SIZE="1")
    async with lifetime(warm) as (_, client):
        lease = (await client.acquire("s")).lease
        await until(is_full)
    folder = here.home.state / "executor" / "bubblewrap"
    zipapp = await asyncio.to_thread(build_zipapp)
    others = BubblewrapBackend("somebody else", folder, zipapp)
    foreign = await others.create(
        await asyncio.to_thread(new_spec, "somebody else", here.home.workspaces)
    )
    try:
        async with lifetime(here) as (_, client):
            await until(lambda: there_are(lease.sandbox_id, foreign.key))
            assert await client.output(lease, "echo alive") == "alive"
        assert [box.key for box in await others.list_boxes()] == [foreign.key]
    finally:
        await others.destroy(foreign)
        await others.close()


async def test_a_session_keeps_its_files_when_a_box_over_them_is_ended(here: Settings) -> None:
    async def is_empty() -> bool:
        return await boxes_of(here) == []

    async with lifetime(here) as (_, client):
        acquired = await client.acquire("s")
        await client.output(acquired.lease, "echo kept > file")
        await client.release(acquired.lease)
    folder = here.home.state / "executor"
    async with Journal(folder / "journal.db") as journal:
        owner = journal.owner
    # As if an executor had died after it had made the session's next box, and before it said so.
    zipapp = await asyncio.to_thread(build_zipapp)
    backend = BubblewrapBackend(owner, folder / "bubblewrap", zipapp)
    workspace = here.home.workspaces / acquired.sandbox.workspace_id
    spec = BoxSpec("made_for_nobody", owner, "default", workspace, Limits())
    box = await backend.create(spec)
    async with lifetime(here) as (_, client):
        await until(is_empty)
        lease = (await client.acquire("s")).lease
        assert await client.output(lease, "cat file") == "kept"
    await backend.destroy(box)
    await backend.close()


async def test_a_stop_lets_what_runs_go_on(here: Settings) -> None:
    async with Process(here) as process, process.client() as client:
        lease = (await client.acquire("s")).lease
        await client.start(lease, "python3", "-c", WRITER, exec_id="x")
        await until(lambda: has_output(client, lease, "x"))
        assert await process.stop() == 0
    async with lifetime(here) as (_, client):
        seen = await client.follow(lease, "x")
        assert hashlib.sha256(seen.stdout).hexdigest() == seen.stderr.decode()


async def test_a_home_has_one_executor(here: Settings) -> None:
    async with lifetime(here) as (_, client):
        lease = (await client.acquire("s")).lease
        assert "another executor uses" in await Process(here, "other.sock").refusal()
        assert (await client.run(lease, "true")).code == 0


async def boxes_of(settings: Settings) -> list[dict[str, Any]]:
    """The records of all bubblewrap boxes in a home."""

    def read() -> list[dict[str, Any]]:
        folder = settings.home.state / "executor" / "bubblewrap" / "boxes"
        records: list[dict[str, Any]] = []
        for path in folder.glob("*/box.json"):
            with suppress(FileNotFoundError):  # it is being ended
                records.append(json.loads(path.read_text()))
        return records

    return await asyncio.to_thread(read)
