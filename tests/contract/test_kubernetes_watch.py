"""A pod that is lost is told at once, also where the streams into it stay open."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from executor_service.backends.base import Box, BoxSpec
from executor_service.backends.kubernetes.backend import KubernetesBackend
from executor_service.backends.kubernetes.pod import pod_name
from executor_service.errors import BoxOutOfMemory
from tests.boxes import new_spec, open_console
from tests.fakes.kubernetes.faults import Fault, condemn, erase, restart
from tests.fakes.kubernetes.running import StandIn
from tests.fakes.kubernetes.server import Cluster
from tests.kubernetes_cluster import backend_of, cluster, until_lost

pytestmark = pytest.mark.slow

SOON_S = 5.0


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


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
        async with asyncio.timeout(10):
            while stand_in.cluster.faults:  # noqa: ASYNC110 - it is noticed in another thread
                await asyncio.sleep(0.01)
        assert await console.output("echo still here") == "still here"
        await stand_in.tell(lambda there: erase(there, pod_name(box.key)))
        _, after_s = await until_lost(backend, box, console.link)
    assert after_s < SOON_S


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
