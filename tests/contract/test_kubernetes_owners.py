"""Several executors of one release: each has its own pods, and clears away what a lost one left."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from executor_service.backends.base import Box
from executor_service.backends.kubernetes.api import Json
from executor_service.backends.kubernetes.backend import KubernetesBackend
from executor_service.backends.kubernetes.pod import pod_name
from executor_service.backends.kubernetes.pods import Abandoned
from tests.boxes import new_spec
from tests.fakes.kubernetes.running import StandIn
from tests.kubernetes_cluster import backend_of

pytestmark = pytest.mark.slow

PATIENCE_S = 0.3
RELEASE = "hermes-sandboxes"
MINE, OTHER = "executor-mine", "executor-other"


@pytest.fixture
async def mine(stand_in: StandIn) -> AsyncIterator[KubernetesBackend]:
    async with executor(stand_in, MINE) as backend:
        yield backend


@pytest.fixture
async def other(stand_in: StandIn) -> AsyncIterator[KubernetesBackend]:
    async with executor(stand_in, OTHER) as backend:
        yield backend


@asynccontextmanager
async def executor(stand_in: StandIn, owner: str) -> AsyncGenerator[KubernetesBackend]:
    backend = backend_of(stand_in, owner, abandoned_after_s=PATIENCE_S)
    yield backend
    for box in await backend.list_boxes():
        await backend.destroy(box)
    await backend.close()


async def make(backend: KubernetesBackend, owner: str, folder: Path) -> Box:
    return await backend.create(await asyncio.to_thread(new_spec, owner, folder))


async def look(backend: KubernetesBackend, times: int = 3) -> list[Box]:
    """What it lists in the end, having looked for longer than it is patient."""
    for _ in range(times - 1):
        await backend.list_boxes()
        await asyncio.sleep(PATIENCE_S)
    return await backend.list_boxes()


async def end(stand_in: StandIn, box: Box) -> None:
    """What becomes of a pod whose supervisor has waited long enough for its executor."""
    pod = stand_in.cluster.store.get("pods", pod_name(box.key))
    container = stand_in.cluster.kubelet.container_of(pod)
    engine = stand_in.cluster.kubelet.engine
    await stand_in.do(lambda _: engine.ask("POST", f"/containers/{container}/kill"))
    await until(lambda: pod["status"]["phase"] != "Running")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - it comes true in another thread
            await asyncio.sleep(0.01)


def pods(stand_in: StandIn) -> list[str]:
    return [pod["metadata"]["name"] for pod in stand_in.cluster.store.select("pods")]


async def test_what_an_executor_has_left_for_good_is_removed_by_another(
    mine: KubernetesBackend, other: KubernetesBackend, stand_in: StandIn, tmp_path: Path
) -> None:
    left, kept = await make(other, OTHER, tmp_path), await make(other, OTHER, tmp_path)
    await end(stand_in, left)
    # Not at once: its own executor may be about to look.
    await mine.list_boxes()
    assert pod_name(left.key) in pods(stand_in)
    await look(mine)
    await until(lambda: pod_name(left.key) not in pods(stand_in))
    assert pod_name(kept.key) in pods(stand_in)


async def test_another_release_is_none_of_its_business(
    mine: KubernetesBackend, stand_in: StandIn, tmp_path: Path
) -> None:
    stranger = backend_of(stand_in, OTHER, release=f"release-{uuid.uuid4().hex[:8]}")
    box = await make(stranger, OTHER, tmp_path)
    await end(stand_in, box)
    await look(mine)
    assert pod_name(box.key) in pods(stand_in)
    await stranger.destroy(box)
    await stranger.close()


def a_pod(phase: str, uid: str = "u", owner: str = OTHER) -> Json:
    reference = {"kind": "ConfigMap", "name": "hermes-sandboxes", "uid": "r"}
    notes = {"org.hermes.owner": owner}
    metadata = {"uid": uid, "annotations": notes, "ownerReferences": [reference]}
    return {"metadata": metadata, "status": {"phase": phase}}


def test_only_what_does_nothing_for_long_is_abandoned() -> None:
    at_once = Abandoned(MINE, RELEASE, -1)
    assert at_once.among([a_pod("Running")]) == []
    assert at_once.among([a_pod("Failed", owner=MINE)]) == []
    ended, unbegun = a_pod("Succeeded", "a"), a_pod("Pending", "b")
    assert at_once.among([ended, unbegun]) == [ended, unbegun]
    patient = Abandoned(MINE, RELEASE, 600)
    assert patient.among([ended, unbegun]) == patient.among([ended, unbegun]) == []
