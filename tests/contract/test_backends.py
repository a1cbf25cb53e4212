"""One conformance suite for all backends."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.contract.backend_suite_boxes import BoxSuite
from tests.contract.backend_suite_capabilities import CapabilitySuite
from tests.contract.backend_suite_commands import CommandSuite
from tests.contract.backend_suite_egress import EgressSuite
from tests.contract.backend_suite_endings import EndingSuite
from tests.contract.backend_suite_files import FileSuite
from tests.contract.backend_suite_sandboxes import SandboxSuite
from tests.contract.backend_suite_tasks import TaskSuite
from tests.contract.backend_suite_workspaces import WorkspaceSuite
from tests.contract.executor_over import serving_over
from tests.support.boxes import BACKENDS, Console, Yard, backends, open_console, open_yard
from tests.support.executors import Executor
from tests.support.users import users_folder
from tests.support.world import World, open_world

HAVE_MACHINE_S_NETWORK = ("local", "ssh")
"""Backends that cannot keep commands from it."""
END_WORKSPACES = ("kubernetes",)
"""Those that end a workspace with its box as they are set up here."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module", params=backends())
def name(request: pytest.FixtureRequest) -> str:
    """Each backend in turn."""
    return request.param


@pytest.fixture(scope="module")
def folder(name: str) -> Iterator[Path]:
    """Where the backend keeps what it must, and workspaces are; also for who is not root."""
    with users_folder() as folder:
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(name: str, folder: Path) -> AsyncIterator[Yard]:
    """One backend for all tests of it."""
    async with open_yard(name, folder) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def other(yard: Yard) -> AsyncIterator[Yard]:
    """A second object of the same backend and owner, as after the executor's restart."""
    again = await yard.again()
    yield again
    await again.backend.close()


@pytest_asyncio.fixture(loop_scope="module")
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An internet of the test's own."""
    async with open_world(tmp_path) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(yard: Yard) -> AsyncIterator[Console]:
    """One box for all tests that leave no trace in it."""
    async with yard.box() as box, open_console(yard.backend, box) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor(yard: Yard, folder: Path) -> AsyncIterator[Executor]:
    """One executor over the backend for all tests of what its boxes are to one."""
    async with serving_over(yard, folder / "executor") as running:
        yield running


class TestBoxes(BoxSuite):
    """See backend_suite_boxes."""


class TestCapabilities(CapabilitySuite):
    """See backend_suite_capabilities."""


class TestCommands(CommandSuite):
    """See backend_suite_commands."""


class TestEndings(EndingSuite):
    """See backend_suite_endings."""


class TestFiles(FileSuite):
    """See backend_suite_files."""


class TestTasks(TaskSuite):
    """See backend_suite_tasks."""


@pytest.mark.timeout(180)  # the first of them waits for an executor
class TestSandboxes(SandboxSuite):
    """See backend_suite_sandboxes."""


@pytest.mark.parametrize(
    "name",
    backends(name for name in BACKENDS if name not in HAVE_MACHINE_S_NETWORK),
    indirect=True,
    scope="module",
)
class TestEgress(EgressSuite):
    """See backend_suite_egress."""


@pytest.mark.parametrize(
    "name",
    backends(name for name in BACKENDS if name not in END_WORKSPACES),
    indirect=True,
    scope="module",
)
class TestWorkspaces(WorkspaceSuite):
    """See backend_suite_workspaces."""
