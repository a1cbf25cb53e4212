"""Engines whose containers have users of their own: who commands are, and whose their files."""

from asyncio import to_thread
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hermes.executor.v1 import exec_pb2
from tests.contract.dying_executor import IMPORTS
from tests.support.boxes import odd_seconds
from tests.support.docker_engine import OwnEngine, rootless_engine
from tests.support.executor_client import Client
from tests.support.executors import Process, executor_settings, until
from tests.support.users import UID, users_folder, users_python
from tests.support.workspace_client import Workspaces

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
"""An engine is started."""

MIB = 1024 * 1024
FILL = "mkdir -m 700 own; echo secret > own/file; echo kept > file; head -c 1M /dev/zero > large"


@pytest.fixture(scope="module")
def rootless() -> Iterator[OwnEngine]:
    with rootless_engine() as engine:
        yield engine


@pytest.fixture
def users_home() -> Iterator[Path]:
    with users_folder() as folder:
        yield folder


def users_executor(home: Path, engine: OwnEngine) -> Process:
    """An executor of an ordinary user."""
    process = Process(executor_settings(home, "docker", DOCKER_HOST=engine.host))
    process.python = (
        *("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"),
        *("env", f"PYTHONPATH={':'.join(IMPORTS)}", users_python()),
    )
    return process


def limit(home: Path) -> None:
    (home / "config.yaml").write_text(f"executor:\n  workspace_bytes: {4 * MIB}\n")


def status_of(argument: str) -> dict[str, list[str]]:
    """What the kernel says of the process that sleeps for so long; nothing if there is none."""
    for process in Path("/proc").glob("[0-9]*"):
        # Others end meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            if (process / "cmdline").read_bytes() == f"sleep\0{argument}\0".encode():
                lines = (process / "status").read_text().splitlines()
                return {name: values.split() for name, values in (x.split(":", 1) for x in lines)}
    return {}


async def check_nothing_is_gained(client: Client, user: int) -> None:
    """Commands are that user on this machine, and can become no other."""
    lease, seconds = (await client.acquire("s")).lease, odd_seconds()
    sleep = await client.start(lease, "sleep", seconds)

    async def sleeps() -> bool:
        return bool(await to_thread(status_of, seconds))

    await until(sleeps)
    status = await to_thread(status_of, seconds)
    assert set(status["Uid"]) == {str(user)}
    assert status["NoNewPrivs"] == ["1"]
    assert {int(status[name][0], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0}
    await client.signal(lease, sleep.exec_id)
    await client.release(lease)


async def check_workspaces(client: Client, home: Path, user: int) -> None:
    """Commands fill workspaces, and the executor measures, copies and removes them."""
    answer = await client.acquire("s")
    assert await client.output(answer.lease, f"{FILL}; cat file") == "kept"
    source = answer.sandbox.workspace_id
    (folder,) = await to_thread(lambda: list(home.rglob(source)))
    owners = await to_thread(lambda: {path.stat().st_uid for path in (folder, *folder.rglob("*"))})
    assert owners == {user}
    too_much = await client.run(answer.lease, script="head -c 8M /dev/zero > much; sleep 60")
    assert too_much.exit is not None
    assert too_much.exit.reason == exec_pb2.EXIT_REASON_DISK_QUOTA
    await client.output(answer.lease, "rm much")
    await client.release(answer.lease)

    workspaces = Workspaces(client)
    fork = await workspaces.fork(source)
    assert fork.size_bytes > MIB
    lease = (await client.acquire("other", workspace_id=fork.workspace_id)).lease
    assert await client.output(lease, "echo more >> own/file; cat own/file") == "secret\nmore"
    await client.release(lease)
    for ident in (source, fork.workspace_id):
        await workspaces.delete(ident)
    assert not await to_thread(lambda: list(home.rglob("wsp_*")))


async def test_an_engine_of_an_ordinary_user(rootless: OwnEngine, users_home: Path) -> None:
    await to_thread(limit, users_home)
    process = await to_thread(users_executor, users_home, rootless)
    async with process as executor, executor.client() as client:
        await check_nothing_is_gained(client, UID)
        await check_workspaces(client, users_home, UID)
