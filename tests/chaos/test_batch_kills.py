"""A batch whose services are killed while it runs: every item ends once, with its own sandbox."""

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator

import pytest

from hermes.scheduler.v1 import batch_item_pb2 as items
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.rpc.channels import Channels
from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.client import channels_of
from tests.e2e.deployment import Deployment, four_processes, running
from tests.e2e.model import TELL, calls, model_process, rule, terminal_call

COMMAND = "cat prepared; echo x >>ran; wc -l <ran"
RULES = (rule("item", calls(terminal_call(COMMAND)), TELL),)
VICTIMS = ("agent", "executor", "scheduler")


@pytest.fixture
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Four processes whose model answers each item with one command."""
    need_backend("bubblewrap", tmp_path_factory.mktemp("probe"))
    folder = tmp_path_factory.mktemp("four")
    with model_process(tmp_path_factory.mktemp("model"), RULES) as model:
        made = four_processes(folder, model.url, sandboxed("bubblewrap"))
        with running(made) as deployment:
            yield deployment


async def _requests(count: int) -> AsyncGenerator[pb.CreateBatchRequest]:
    header = pb.CreateBatchRequest.Header(
        name="killed",
        item_count=count,
        digest=hashlib.sha256(b"killed").digest(),
        options=items.BatchOptions(worker_count=8),
    )
    yield pb.CreateBatchRequest(header=header)
    asked = [
        items.BatchPrompt(
            item_id=f"item-{number}",
            prompt=f"item {number}",
            toolsets=["terminal"],
            setup=f"echo loud; echo item-{number} >prepared",
            check=f"test $(cat prepared) = item-{number} && echo 0.5",
        )
        for number in range(count)
    ]
    yield pb.CreateBatchRequest(items=pb.CreateBatchRequest.Items(items=asked))


async def _done(stub: BatchServiceStub) -> items.Batch:
    request = pb.GetBatchRequest(name="killed")
    return (await stub.GetBatch(request, wait_for_ready=True, timeout=60)).batch


async def _until(stub: BatchServiceStub, enough: Callable[[items.Batch], bool]) -> None:
    while not enough(await _done(stub)):  # noqa: ASYNC110 - rows change without an event
        await asyncio.sleep(0.05)


async def _killed(channels: Channels, four: Deployment, count: int, kills: int) -> None:
    stub, dice = BatchServiceStub(channels.to("scheduler")), random.Random(kills)
    await stub.CreateBatch(_requests(count))
    for number in range(1, kills + 1):
        goal = count * number // (kills + 2)
        await _until(stub, lambda batch: batch.done_count >= goal)  # noqa: B023
        server = four.servers[VICTIMS[number % len(VICTIMS)]]
        await asyncio.sleep(dice.uniform(0, 0.1))
        server.kill()
        await asyncio.to_thread(four.start)
    await _until(stub, lambda batch: batch.state == items.BATCH_STATE_COMPLETED)


@pytest.mark.parametrize(
    ("count", "kills"), [(100, 4), pytest.param(1000, 10, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(300)
async def test_every_item_of_a_batch_ends_once_whatever_is_killed(
    four: Deployment, count: int, kills: int
) -> None:
    async with channels_of(four.client, ("scheduler",)) as channels, asyncio.timeout(280):
        await _killed(channels, four, count, kills)
        stub = BatchServiceStub(channels.to("scheduler"))
        found = await stub.ListItems(pb.ListItemsRequest(name="killed", page_size=1000))
        batch = await _done(stub)
    assert batch.done_count == count
    assert [item.position for item in found.items] == list(range(1, count + 1))
    odd = [item for item in found.items if item.result.finish_reason != "completed"]
    assert not odd, odd[:3]
    assert Counter(item.result.score for item in found.items) == {0.5: count}
    for item in found.items:
        assert item.result.answer.split() == [item.prompt.item_id, "1"]
