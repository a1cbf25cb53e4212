"""A whole executor whose sandboxes are pods: a cut stream is nothing, a lost pod is told."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.errors import Reason
from tests.fakes.kubernetes.running import StandIn
from tests.fakes.kubernetes.server import Cluster
from tests.support.executor_client import Client
from tests.support.executors import executor_settings, refused, serving, until
from tests.support.kubernetes_cluster import cluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
async def client(stand_in: StandIn, tmp_path: Path) -> AsyncIterator[Client]:
    environ = {"HERMES_KUBERNETES_KUBECONFIG": str(stand_in.kubeconfig)}
    async with (
        serving(executor_settings(tmp_path, "kubernetes", **environ)) as executor,
        executor.client() as client,
    ):
        yield client


async def until_it_has_begun(client: Client, lease: sandbox_pb2.Lease) -> None:
    async def has_begun() -> bool:
        known = [one.exec_id for one in await client.list(lease)]
        return "x" in known and bool((await client.read(lease, "x", 0, 9)).data)

    await until(has_begun)


async def test_an_api_server_that_restarts_loses_no_sandbox(
    client: Client, stand_in: StandIn
) -> None:
    def leave(there: Cluster) -> None:
        there.is_away = True
        there.execs.cut()

    def come_back(there: Cluster) -> None:
        there.is_away = False

    answer = await client.acquire("s")
    script = "echo begun; i=0; while [ $i -lt 9 ]; do sleep 1; echo $i; i=$((i + 1)); done"
    following = asyncio.ensure_future(client.run(answer.lease, script=script, exec_id="x"))
    await until_it_has_begun(client, answer.lease)
    await stand_in.tell(leave)
    try:
        await asyncio.sleep(6)
        assert await refused(client.start(answer.lease, "true")) is Reason.BACKEND_UNAVAILABLE
    finally:
        await stand_in.tell(come_back)
    seen = await following
    assert seen.exit is not None
    assert seen.exit.reason == exec_pb2.EXIT_REASON_EXITED
    assert seen.stdout.split() == [b"begun", *(str(n).encode() for n in range(9))]
    again = await client.acquire("s")
    assert again.sandbox.sandbox_id == answer.sandbox.sandbox_id
    await client.release(again.lease)


async def test_memory_is_the_reason_of_a_lost_pod(client: Client, stand_in: StandIn) -> None:
    answer = await client.acquire("s")
    following = asyncio.ensure_future(
        client.run(answer.lease, script="echo begun; sleep 60", exec_id="x")
    )
    await until_it_has_begun(client, answer.lease)
    (pod,) = stand_in.cluster.store.select("pods", "org.hermes.box=" + answer.lease.sandbox_id)
    await stand_in.do(lambda there: there.kubelet.exhaust(pod))
    seen = await following
    assert seen.exit is not None
    assert seen.exit.reason == exec_pb2.EXIT_REASON_OOM
    assert seen.stdout == b"begun\n"
    assert await refused(client.start(answer.lease, "true")) is Reason.SANDBOX_LOST
    later = await client.acquire("s")
    assert await client.output(later.lease, "echo new") == "new"
