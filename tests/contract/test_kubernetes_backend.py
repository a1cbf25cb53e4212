"""What the kubernetes backend promises beyond the seam: lost pods, cut streams, whose boxes.

A pod that is lost is told at once, also where the streams into it stay open.
"""

import asyncio
import time
import uuid
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from executor_service.backends.base import Box, BoxSpec, Limits, WorkspacePlace
from executor_service.backends.kubernetes.backend import KubernetesBackend
from executor_service.backends.kubernetes.pod import pod_name
from executor_service.errors import BoxCreateFailed, BoxLost, BoxOutOfMemory, LinkClosed
from tests.contract.backend_suite_boxes import BoxSuite
from tests.fakes.kubernetes.faults import Fault, condemn, erase, evict, restart
from tests.fakes.kubernetes.running import StandIn
from tests.fakes.kubernetes.server import Cluster
from tests.support.boxes import Yard, new_spec, open_console
from tests.support.executors import until
from tests.support.kubernetes_cluster import backend_of, until_lost

pytestmark = pytest.mark.slow

SOON_S = 5.0
EVICTED = "The node was low on resource: memory."


@pytest.fixture
def owner() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
async def backend(stand_in: StandIn, owner: str) -> AsyncIterator[KubernetesBackend]:
    backend = backend_of(stand_in, owner)
    yield backend
    stand_in.cluster.faults.clear()
    for box in await backend.list_boxes():
        await backend.destroy(box)
    await backend.close()


@pytest.fixture
def spec(owner: str, tmp_path: Path) -> BoxSpec:
    return new_spec(owner, tmp_path)


def pods_of(stand_in: StandIn, owner: str) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in stand_in.cluster.store.select("pods")
        if pod["metadata"]["annotations"]["org.hermes.owner"] == owner
    ]


def wait_for_pods(stand_in: StandIn, owner: str, count: int) -> None:
    while len(pods_of(stand_in, owner)) != count:
        time.sleep(0.001)


async def test_an_evicted_pod_is_lost_at_once(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    box = await backend.create(spec)
    async with open_console(backend, box) as console:
        recorder = await console.shell("sleep 600")
        await stand_in.do(lambda there: evict(there, pod_name(box.key), EVICTED))
        error, after_s = await until_lost(backend, box, console.link)
    assert f"Evicted: {EVICTED}" in str(error)
    assert after_s < SOON_S
    assert isinstance(recorder.errors[0], LinkClosed)
    # Nobody but the executor removes what is left of it.
    assert await backend.list_boxes() == [box]
    await backend.destroy(box)
    assert await backend.list_boxes() == []


async def test_another_pod_of_the_same_name_is_not_the_box(
    backend: KubernetesBackend, spec: BoxSpec
) -> None:
    first = await backend.create(spec)
    await backend.destroy(first)
    second = await backend.create(spec)
    assert first.native_id != second.native_id
    with pytest.raises(BoxLost, match="another pod has its name"):
        await backend.connect(first)
    assert await backend.list_boxes() == [second]


async def test_a_pod_whose_supervisor_has_ended_is_lost(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    box = await backend.create(spec)
    pod = stand_in.cluster.store.get("pods", pod_name(box.key))
    async with open_console(backend, box) as console:
        container = stand_in.cluster.kubelet.container_of(pod)
        engine = stand_in.cluster.kubelet.engine
        await stand_in.do(lambda _: engine.ask("POST", f"/containers/{container}/kill"))
        error, after_s = await until_lost(backend, box, console.link)
    assert "exit code 137" in str(error)
    assert after_s < SOON_S


@pytest.fixture
async def box(backend: KubernetesBackend, spec: BoxSpec) -> Box:
    return await backend.create(spec)


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (erase, "it has no pod"),
        (condemn, "its pod is being deleted"),
        (restart, "its container has ended"),
    ],
    ids=["erased", "condemned", "restarted"],
)
async def test_a_pod_whose_streams_stay_open_is_lost_soon(
    backend: KubernetesBackend,
    stand_in: StandIn,
    box: Box,
    happens: Callable[[Cluster, str], None],
    why: str,
) -> None:
    async with open_console(backend, box) as console:
        assert await console.output("echo here") == "here"
        await stand_in.tell(lambda there: happens(there, pod_name(box.key)))
        error, after_s = await until_lost(backend, box, console.link)
    assert why in str(error)
    assert not isinstance(error, BoxOutOfMemory)
    assert after_s < SOON_S


async def test_other_pods_are_left_alone(
    backend: KubernetesBackend, stand_in: StandIn, box: Box, owner: str, tmp_path: Path
) -> None:
    other = await backend.create(await asyncio.to_thread(new_spec, owner, tmp_path))
    async with open_console(backend, box) as console, open_console(backend, other) as second:
        await stand_in.tell(lambda there: condemn(there, pod_name(other.key)))
        await until_lost(backend, other, second.link)
        assert await console.output("echo still here") == "still here"


async def test_a_server_that_fails_for_a_moment_loses_nothing(
    backend: KubernetesBackend, stand_in: StandIn, box: Box
) -> None:
    async with open_console(backend, box) as console:
        stand_in.cluster.faults.append(Fault(503, "GET", "/pods$", times=1))
        await stand_in.tell(lambda there: there.end_watches())
        await until(lambda: not stand_in.cluster.faults)
        assert await console.output("echo still here") == "still here"
        await stand_in.tell(lambda there: erase(there, pod_name(box.key)))
        _, after_s = await until_lost(backend, box, console.link)
    assert after_s < SOON_S


async def test_pods_are_watched_and_not_asked_for_again_and_again(
    backend: KubernetesBackend, stand_in: StandIn, box: Box, owner: str, tmp_path: Path
) -> None:
    async with open_console(backend, box) as console:
        assert await console.output("echo here") == "here"
        before = len(stand_in.cluster.seen)
        await asyncio.sleep(3)
        assert stand_in.cluster.seen[before:] == []
    other = await asyncio.to_thread(new_spec, owner, tmp_path)
    before = len(stand_in.cluster.seen)
    await backend.create(other)
    asked = [one for one in stand_in.cluster.seen[before:] if one.endswith(pod_name(other.box_key))]
    assert len(asked) <= 3, "one for news that has not come yet, two around the connection"


async def test_memory_is_told_as_the_reason(
    backend: KubernetesBackend, stand_in: StandIn, box: Box
) -> None:
    async with open_console(backend, box) as console:
        pod = stand_in.cluster.store.get("pods", pod_name(box.key))
        await stand_in.do(lambda there: there.kubelet.exhaust(pod))
        error, after_s = await until_lost(backend, box, console.link)
    assert isinstance(error, BoxOutOfMemory)
    assert "OOMKilled" in str(error)
    assert after_s < SOON_S


async def test_with_their_release_boxes_go(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    release = f"release-{uuid.uuid4().hex[:8]}"
    mine = backend_of(stand_in, spec.owner, release=release)
    box = await mine.create(spec)
    await stand_in.tell(lambda there: there.drop("configmaps", release))
    await asyncio.wait_for(to_thread(wait_for_pods, stand_in, spec.owner, 0), 20)
    with pytest.raises(BoxLost):
        await mine.connect(box)
    left = [thing["metadata"]["name"] for thing in stand_in.cluster.store.select("configmaps")]
    assert not [name for name in left if name.startswith(release)]
    await mine.close()


async def test_refusals_say_what_is_wrong_and_leave_nothing(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    async def refused(**chosen: Any) -> str:
        picky = backend_of(stand_in, spec.owner, **chosen)
        with pytest.raises(BoxCreateFailed) as error:
            await picky.create(spec)
        await picky.close()
        assert "\n" not in str(error.value)
        assert pods_of(stand_in, spec.owner) == []
        return str(error.value)

    missing = "registry.test/no-such-image:1"
    assert f'ImagePullBackOff: Back-off pulling image "{missing}"' in await refused(image=missing)
    nowhere = await refused(node_selector={"no": "node"}, start_timeout_s=1.0)
    assert "after 1 s: Unschedulable: 0/1 nodes are available" in nowhere
    full = await refused(node_selector={"no": "node"}, schedule_timeout_s=1.0)
    assert "after 1 s (executor.kubernetes.schedule_timeout_s): Unschedulable: 0/1" in full
    stand_in.cluster.quota = 0
    assert "exceeded quota" in await refused()
    stand_in.cluster.quota = 1000
    with pytest.raises(BoxCreateFailed, match="memory limit must exceed"):
        await backend.create(replace(spec, limits=Limits(memory_bytes=1 << 20)))
    await backend.create(spec)
    with pytest.raises(BoxCreateFailed, match="already exists"):
        await backend.create(spec)
    assert pods_of(stand_in, spec.owner) == [pod_name(spec.box_key)]


async def test_a_busy_server_is_asked_again(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    stand_in.cluster.faults.append(Fault(429, "POST", "/pods$", times=2))
    box = await backend.create(spec)
    stand_in.cluster.faults.append(Fault(429, "DELETE", "/pods/", times=1))
    await backend.destroy(box)
    assert stand_in.cluster.faults == []
    assert pods_of(stand_in, spec.owner) == []


async def test_executors_that_start_together_share_owner_and_supervisor(
    stand_in: StandIn, spec: BoxSpec, tmp_path: Path
) -> None:
    release = f"release-{uuid.uuid4().hex[:8]}"
    backends = [backend_of(stand_in, spec.owner, release=release) for _ in range(3)]
    specs = [await to_thread(new_spec, spec.owner, tmp_path) for _ in backends]
    boxes = await asyncio.gather(
        *(backend.create(each) for backend, each in zip(backends, specs, strict=True))
    )
    made = [each["metadata"]["name"] for each in stand_in.cluster.store.select("configmaps")]
    assert len([name for name in made if name.startswith(release)]) == 2
    for backend, box in zip(backends, boxes, strict=True):
        await backend.destroy(box)
        await backend.close()


async def test_a_cancelled_create_leaves_no_box(
    backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec
) -> None:
    for pause_s in (0.0, 0.1):
        creating = asyncio.create_task(backend.create(spec))
        await asyncio.wait_for(to_thread(wait_for_pods, stand_in, spec.owner, 1), 20)
        await asyncio.sleep(pause_s)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        assert pods_of(stand_in, spec.owner) == []


@pytest.fixture
async def claimed(stand_in: StandIn, owner: str, tmp_path: Path) -> AsyncIterator[Yard]:
    """Boxes whose workspaces lie in a claim."""

    def make(owner: str, _: Path) -> KubernetesBackend:
        return backend_of(stand_in, owner, workspace_claim="workspaces")

    yard = await Yard.open(make, owner, tmp_path)
    yield yard
    await yard.close()


async def test_a_workspace_in_a_claim_outlives_its_box(claimed: Yard, stand_in: StandIn) -> None:
    assert claimed.capabilities.workspaces is WorkspacePlace.THERE
    await BoxSuite().test_a_workspace_outlives_its_box_where_it_is_said_to(claimed)
    claim = stand_in.cluster.folder / "claims" / "workspaces"
    (folder,) = await to_thread(lambda: list(claim.iterdir()))
    assert await to_thread((folder / "file").read_text) == "kept\n"
    async with claimed.box() as other, open_console(claimed.backend, other) as console:
        assert await console.output("ls -A; touch mine") == ""
    assert await to_thread(lambda: len(list(claim.iterdir()))) == 2
