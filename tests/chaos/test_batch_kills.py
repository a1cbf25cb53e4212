"""A batch whose services are killed while it runs: every item ends once, with its own sandbox."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from hermes.scheduler.v1 import batch_item_pb2 as items
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.home.trajectories.formats import parse_trajectory
from services.rpc.channels import Channels
from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.client import channels_of
from tests.e2e.deployment import Deployment, Server, four_processes, running
from tests.e2e.model import TELL, calls, model_process, rule, terminal_call

COMMAND = "cat prepared; echo x >>ran; wc -l <ran"
RULES = (rule("item", calls(terminal_call(COMMAND)), TELL),)
VICTIMS = ("agent", "executor", "scheduler", "batch")
TIMEOUT_S = 280.0


@pytest.fixture
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Four processes whose model answers each item with one command."""
    need_backend("bubblewrap", tmp_path_factory.mktemp("probe"))
    folder = tmp_path_factory.mktemp("four")
    with model_process(tmp_path_factory.mktemp("model"), RULES) as model:
        made = four_processes(folder, model.url, sandboxed("bubblewrap"))
        with running(made) as deployment:
            yield deployment


def _command(four: Deployment, count: int) -> Server:
    """The command that runs the batch; started again, it goes on with it."""
    items = [
        {
            "id": f"item-{number}",
            "prompt": f"item {number}",
            "setup": f"echo loud; echo item-{number} >prepared",
            "check": f"test $(cat prepared) = item-{number} && echo 0.5",
        }
        for number in range(count)
    ]
    dataset = four.folder / "items.jsonl"
    dataset.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    options = ("--run", "killed", "--workers", "8", "--toolsets", "terminal")
    return Server("batch", four.client, "batch", "run", str(dataset), *options)


async def _done(stub: BatchServiceStub) -> items.Batch:
    """The batch, empty until the command has created it."""
    asked = stub.ListBatches(pb.ListBatchesRequest(), wait_for_ready=True, timeout=60)
    return next(iter((await asked).batches), items.Batch())


async def _until(stub: BatchServiceStub, enough: Callable[[items.Batch], bool]) -> None:
    while not enough(await _done(stub)):  # noqa: ASYNC110 - rows change without an event
        await asyncio.sleep(0.05)


async def _kill(channels: Channels, four: Deployment, count: int, kills: int) -> None:
    """Run a batch, and kill the services and the command in turns while it runs."""
    stub, dice = BatchServiceStub(channels.to("scheduler")), random.Random(kills)
    command = await asyncio.to_thread(_command, four, count)
    victims = {**four.servers, "batch": command}
    try:
        await asyncio.to_thread(command.start)
        for number in range(1, kills + 1):
            goal = max(1, count * number // (kills + 2))
            await _until(stub, lambda batch: batch.done_count >= goal)  # noqa: B023
            victim = victims[VICTIMS[number % len(VICTIMS)]]
            await asyncio.sleep(dice.uniform(0, 0.1))
            victim.kill()
            await asyncio.to_thread(four.start)
            if victim is command:
                await asyncio.to_thread(command.start)
        assert await asyncio.to_thread(command.wait, TIMEOUT_S) == 0, command.said()
    finally:
        command.kill()


def _export(four: Deployment) -> list[str]:
    """Return the ids of the records of the batch's data set."""
    out = four.folder / "set"
    assert four.client.run("batch", "export", "killed", "--out", out).status == 0
    lines = (out / "data" / "train.jsonl").read_bytes().splitlines()
    return [parse_trajectory(line).facts.id for line in lines]


@pytest.mark.parametrize(
    ("count", "kills"), [(48, 4), pytest.param(1000, 10, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(300)
async def test_every_item_of_a_batch_ends_once_whatever_is_killed(
    four: Deployment, count: int, kills: int
) -> None:
    async with channels_of(four.client, ("scheduler",)) as channels, asyncio.timeout(TIMEOUT_S):
        await _kill(channels, four, count, kills)
        batch = await _done(BatchServiceStub(channels.to("scheduler")))
    listed = await asyncio.to_thread(four.client.run, "batch", "items", "killed")
    found = [json.loads(line) for line in listed.out.splitlines()]
    assert (batch.state, batch.done_count) == (items.BATCH_STATE_COMPLETED, count)
    assert [item["position"] for item in found] == list(range(1, count + 1))
    odd = [item for item in found if item["result"]["finish_reason"] != "completed"]
    assert not odd, odd[:3]
    assert Counter(item["result"]["score"] for item in found) == {0.5: count}
    for item in found:
        assert item["result"]["answer"].split() == [item["prompt"]["item_id"], "1"]
    exported = await asyncio.to_thread(_export, four)
    assert exported == [item["prompt"]["item_id"] for item in found]
