"""Workspaces in a PersistentVolumeClaim, and what there is of them without one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from executor_service.backends.base import Backend, WorkspacePlace, store_elsewhere
from executor_service.backends.kubernetes.api import Json
from executor_service.backends.kubernetes.pods import Pods
from executor_service.errors import BackendUnavailable, WorkspaceInUse
from tests.contract.backend_suite_workspaces import WorkspaceSuite, store_of
from tests.fakes.kubernetes.running import StandIn
from tests.support.boxes import Yard, open_console
from tests.support.executors import until
from tests.support.kubernetes_cluster import backend_of
from tests.support.replacement import replaced

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["workspaces"])
async def yard(
    stand_in: StandIn, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Yard]:
    """A backend with a claim, or without."""
    claim = request.param

    def make(owner: str, _folder: Path) -> Backend:
        return backend_of(stand_in, owner, workspace_claim=claim)

    folder = tmp_path_factory.mktemp("workspaces")
    opened = await Yard.open(make, "owner", folder)
    yield opened
    await opened.close()


class TestWorkspaces(WorkspaceSuite):
    """See backend_suite_workspaces."""


async def test_who_works_on_workspaces_is_no_box_and_leaves_none(
    yard: Yard, stand_in: StandIn
) -> None:
    async with yard.box() as box, open_console(yard.backend, box) as console:
        await console.output("echo kept > file")
        store = await store_of(yard)
        assert box.workspace in await store.present(box.workspace.parent)
        assert [one.key for one in await yard.backend.list_boxes()] == [box.key]
        with pytest.raises(WorkspaceInUse):
            await store.remove(box.workspace)
        assert await console.output("cat file") == "kept"
    pods = await stand_in.tell(lambda there: there.store.select("pods"))
    assert not pods
    await store.remove(box.workspace)


async def test_who_was_made_without_an_answer_is_removed(yard: Yard, stand_in: StandIn) -> None:
    create = Pods.create

    async def unanswered(pods: Pods, wanted: Json) -> Json:
        await create(pods, wanted)
        raise BackendUnavailable("no answer")

    store = await store_of(yard)
    with replaced(Pods, "create", unanswered), pytest.raises(BackendUnavailable):
        await store.present(yard.folder)
    assert not await stand_in.tell(lambda there: there.store.select("pods"))


async def test_who_is_left_by_its_executor_ends_soon(yard: Yard, stand_in: StandIn) -> None:
    async def dead(_pods: Pods, _pod: Json) -> None:
        """An executor that died removes nothing."""

    store = await store_of(yard)
    with replaced(Pods, "remove", dead):
        await store.present(yard.folder)
    (pod,) = await stand_in.tell(lambda there: there.store.select("pods"))
    container = pod["spec"]["containers"][0]
    assert container["resources"]["requests"]["cpu"] == "25m"

    async def has_ended() -> bool:
        return pod["status"]["phase"] == "Succeeded"

    async with asyncio.timeout(30):
        await until(has_ended)
    assert await yard.backend.list_boxes() == []
    assert not await stand_in.tell(lambda there: there.store.select("pods"))


@pytest.mark.parametrize("yard", [""], indirect=True)
async def test_without_a_claim_nobody_looks_after_them(yard: Yard) -> None:
    assert yard.capabilities.workspaces is WorkspacePlace.IN_BOX
    assert store_elsewhere(yard.backend) is None
