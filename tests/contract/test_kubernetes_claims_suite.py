"""The suite of all backends for boxes that are claimed, as far as it is about boxes and commands.

What files, archives and connections do in a box is the same as in one that was made.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from executor_service.backends.kubernetes.backend import KubernetesBackend
from tests.boxes import SMALL, Console, Yard, open_console
from tests.contract.backend_suite_boxes import BoxSuite
from tests.contract.backend_suite_commands import CommandSuite
from tests.kubernetes_cluster import WARM_POOL, backend_of, cluster

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    """Boxes of one warm pool."""
    folder = tmp_path_factory.mktemp("boxes")
    with ExitStack() as stack:
        running = cluster(folder / "cluster", SMALL)
        stand_in = await asyncio.to_thread(stack.enter_context, running)

        def make(owner: str, _: Path) -> KubernetesBackend:
            return backend_of(stand_in, owner, warm_pool=WARM_POOL)

        yard = await Yard.open(make, f"test-{uuid.uuid4().hex}", folder)
        assert yard.capabilities.available, yard.capabilities.reason
        yield yard
        await yard.close()
        await asyncio.to_thread(stack.close)


@pytest_asyncio.fixture(loop_scope="module")
async def other(yard: Yard) -> AsyncIterator[Yard]:
    """A second object of the same backend and owner, as after the executor's restart."""
    again = await yard.again()
    yield again
    await again.backend.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(yard: Yard) -> AsyncIterator[Console]:
    """One box for all tests that leave no trace in it."""
    async with yard.box() as box, open_console(yard.backend, box) as opened:
        yield opened


class TestBoxes(BoxSuite):
    """See backend_suite_boxes."""


class TestCommands(CommandSuite):
    """See backend_suite_commands."""
