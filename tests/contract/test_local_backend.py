"""What is particular to commands on this machine itself: who allows them, and what stays."""

import asyncio
import os
from asyncio import to_thread
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from executor_service.backends.local import LocalBackend, LocalOptions
from executor_service.backends.process_records import ProcessMark
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.errors import BackendUnavailable
from executor_service.link.exec_handle import ExecHandle
from executor_service.records.sandboxes import Isolation
from tests.contract.backend_suite_endings import check_lost
from tests.contract.dying_executor import DyingExecutor
from tests.support.boxes import Recorder, UsersLocal, Yard, odd_seconds, open_console, open_yard
from tests.support.requirements import require
from tests.support.users import UID, users_folder, users_python

BACKEND = """
from functools import partial
from executor_service.backends.local import LocalBackend, LocalOptions
Backend = partial(LocalBackend, options=LocalOptions(is_allowed=True))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with users_folder() as folder:
        yield folder


@pytest.fixture
async def yard(folder: Path) -> AsyncIterator[Yard]:
    async with open_yard("local", folder) as opened:
        yield opened


async def check_refused(folder: Path, options: LocalOptions, why: str) -> None:
    """No box is made, and one line says why."""
    backend = LocalBackend("me", folder / "never", await to_thread(build_zipapp), options)
    found = await backend.probe()
    assert (found.available, found.isolation) == (False, Isolation.NONE)
    assert why in found.reason
    assert "\n" not in found.reason
    yard = Yard(lambda _owner, _folder: backend, "me", folder, backend, found)
    with pytest.raises(BackendUnavailable, match=why):
        await backend.create(await to_thread(yard.spec))
    assert not await to_thread((folder / "never").exists)


async def test_it_is_refused_unless_the_owner_allows_it(folder: Path) -> None:
    await check_refused(folder, LocalOptions(), "security.allow_local_backend: true")


async def test_it_is_refused_to_root(folder: Path) -> None:
    require("root", os.geteuid() == 0, "only root is refused")
    await check_refused(folder, LocalOptions(is_allowed=True), "as an ordinary user")


async def test_a_machine_where_the_supervisor_does_not_run(folder: Path) -> None:
    for python, why in (("/nonexistent/python3", "No such file"), ("/bin/false", "does not run")):
        options = LocalOptions(is_allowed=True, python=python)
        backend = LocalBackend if os.geteuid() else UsersLocal
        zipapp = await to_thread(build_zipapp)
        found = await backend("me", folder / "backend", zipapp, options).probe()
        assert not found.available
        assert why in found.reason


async def test_it_says_whose_files_are_open_to_commands(yard: Yard) -> None:
    found = await yard.backend.probe()
    assert found.isolation is Isolation.NONE
    assert "commands run on this machine itself, without isolation" in found.reason
    async with yard.box() as box, open_console(yard.backend, box) as console:
        user = await console.output("id -un 2>/dev/null || id -u")
        assert f"as {user}," in found.reason
        assert await console.output("id -u") == str(UID)
        assert await console.output("hostname") == os.uname().nodename


async def test_a_command_goes_on_when_the_executor_is_killed(folder: Path) -> None:
    owner, python = "test-local", await to_thread(users_python)
    dying = DyingExecutor(BACKEND, folder, owner, python, user=None if os.geteuid() else UID)
    await to_thread(dying.run)
    async with open_yard("local", folder) as yard:
        backend = await to_thread(yard.make, owner, folder / "backend")
        (box,) = await backend.list_boxes()
        adopted: list[Recorder] = []

        def adopt(command: ExecHandle) -> Recorder:
            adopted.append(Recorder(command))
            return adopted[-1]

        async with open_console(backend, box, 2, adopt):
            exit_ = await adopted[0].exit()
            assert exit_.code == 5
            assert adopted[0].stdout.split() == [str(n) for n in range(40)]
        assert await yard.backend.list_boxes() == [], "it is another owner's"
        await backend.destroy(box)
        assert await to_thread(ProcessMark.read, int(box.native_id)) is None


async def test_a_box_whose_supervisor_was_killed_is_lost_and_leaves_nothing(yard: Yard) -> None:
    seconds = odd_seconds()
    async with yard.box() as box:
        async with open_console(yard.backend, box) as console:
            await console.shell(f"setsid sleep {seconds} & sleep {seconds}")
            await to_thread(os.kill, int(box.native_id), 9)
            await asyncio.wait_for(console.link.wait_ended(), 10)
        await check_lost(yard, box)
        assert await yard.backend.list_boxes() == []
    async with yard.box() as other, open_console(yard.backend, other) as console:
        seen = await console.output("cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '")
        assert f"sleep {seconds}" not in seen
