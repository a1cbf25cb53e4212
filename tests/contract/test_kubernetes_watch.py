"""A pod that is lost is told at once, also where the streams into it stay open."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from executor_service.backends.base import Box, BoxSpec
from executor_service.backends.kubernetes.backend import KubernetesBackend
from executor_service.backends.kubernetes.pod import pod_name
from executor_service.errors import BoxLost, BoxOutOfMemory, LinkClosed
from tests.boxes import Console, new_spec, open_console
from tests.fakes.kubernetes.faults import Fault, condemn, erase, restart
from tests.fakes.kubernetes.running import StandIn
from tests.fakes.kubernetes.server import Cluster
from tests.kubernetes_cluster import backend_of, cluster

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
    # Which the stand-in sees when it has something to say.
    await until(lambda: stand_in.cluster.store.watches.open_count == 0)


@pytest.fixture
def spec(owner: str, tmp_path: Path) -> BoxSpec:
    return new_spec(owner, tmp_path)


@pytest.fixture
async def box(backend: KubernetesBackend, stand_in: StandIn, spec: BoxSpec) -> Box:
    box = await backend.create(spec)
    await until(lambda: stand_in.cluster.store.watches.open_count == 1)
    return box


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - it is noticed in another thread
            await asyncio.sleep(0.01)


async def told(backend: KubernetesBackend, box: Box, console: Console) -> tuple[BoxLost, float]:
    """How connecting says that the box is lost once its link has ended, and how soon."""
    started = time.monotonic()
    async with asyncio.timeout(20):
        assert isinstance(await console.link.wait_ended(), LinkClosed)
        while True:
            try:
                await (await backend.connect(box)).close()
            except BoxLost as error:
                return error, time.monotonic() - started
            except LinkClosed:
                await asyncio.sleep(0.05)


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
        error, after_s = await told(backend, box, console)
    assert why in str(error)
    assert not isinstance(error, BoxOutOfMemory)
    assert after_s < SOON_S


async def test_other_pods_are_left_alone(
    backend: KubernetesBackend, stand_in: StandIn, box: Box, owner: str, tmp_path: Path
) -> None:
    other = await backend.create(await asyncio.to_thread(new_spec, owner, tmp_path))
    async with open_console(backend, box) as console, open_console(backend, other) as second:
        await stand_in.tell(lambda there: condemn(there, pod_name(other.key)))
        await told(backend, other, second)
        assert await console.output("echo still here") == "still here"


async def test_a_watch_that_is_cut_goes_on_where_it_was(
    backend: KubernetesBackend, stand_in: StandIn, box: Box
) -> None:
    watches = stand_in.cluster.store.watches
    async with open_console(backend, box) as console:
        for _ in range(2):
            served = watches.served
            assert await stand_in.tell(lambda there: there.store.watches.cut()) == 1
            await until(lambda served=served: watches.served > served)
        assert await console.output("echo still here") == "still here"

        def lose_unseen(there: Cluster) -> None:
            there.store.watches.cut()
            erase(there, pod_name(box.key))

        stand_in.cluster.faults.append(Fault(503, "GET", "/pods$", times=2))
        await stand_in.tell(lose_unseen)
        _, after_s = await told(backend, box, console)
    assert after_s < SOON_S
    assert stand_in.cluster.faults == []


async def test_where_the_past_is_forgotten_the_present_is_looked_at(
    backend: KubernetesBackend, stand_in: StandIn, box: Box
) -> None:
    def lose(there: Cluster) -> None:
        erase(there, pod_name(box.key))
        there.store.watches.forget()
        there.store.watches.cut()

    async with open_console(backend, box) as console:
        await stand_in.tell(lose)
        _, after_s = await told(backend, box, console)
    assert after_s < SOON_S


async def test_memory_is_told_as_the_reason(
    backend: KubernetesBackend, stand_in: StandIn, box: Box
) -> None:
    async with open_console(backend, box) as console:
        pod = stand_in.cluster.store.get("pods", pod_name(box.key))
        await stand_in.do(lambda there: there.kubelet.exhaust(pod))
        error, after_s = await told(backend, box, console)
    assert isinstance(error, BoxOutOfMemory)
    assert "OOMKilled" in str(error)
    assert after_s < SOON_S


async def test_one_watch_is_enough_for_all_and_ends_with_the_backend(
    backend: KubernetesBackend, stand_in: StandIn, box: Box, owner: str, tmp_path: Path
) -> None:
    watches = stand_in.cluster.store.watches
    other = await backend.create(await asyncio.to_thread(new_spec, owner, tmp_path))
    async with open_console(backend, box), open_console(backend, other):
        assert watches.open_count == 1
    later = backend_of(stand_in, owner)
    with suppress(LinkClosed):
        await (await later.connect(box)).close()
    await until(lambda: watches.open_count == 2)
    await later.close()
    await until(lambda: watches.open_count == 1)
