"""Groups of attempts at tasks, each run as a batch that outlives the command."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from time import monotonic
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from msgspec import Struct

from hermes.agent.v1.trajectory_pb2_grpc import TrajectoryServiceStub
from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.cli.batch.progress import PATIENCE_S, watch
from services.cli.batch.report import all_items, state_word
from services.cli.command import Context
from services.cli.trajectories.reader import read_trajectories
from services.errors import FailedPrecondition
from services.home.batches.environment import task_index
from services.home.batches.requests import creation_requests
from services.home.trajectories.trajectory import Trajectory

_T = TypeVar("_T")


class Attempt(Struct, frozen=True):
    """An item that has ended, and what its turn said."""

    item: items_pb.BatchItem
    trajectory: Trajectory


class Groups:
    """The groups of a run: each task in a seeded order, then all again in another."""

    def __init__(
        self,
        context: Context,
        run: str,
        prompts: Sequence[items_pb.BatchPrompt],
        options: items_pb.BatchOptions,
    ) -> None:
        """`options.worker_count` prompts in a row are a task's."""
        self._context, self._run, self._options = context, run, options
        self._batches = context.stub(BatchServiceStub)
        size = options.worker_count
        self.tasks = [prompts[at : at + size] for at in range(0, len(prompts), size)]
        self._under_way = set[str]()

    def task(self, number: int) -> Sequence[items_pb.BatchPrompt]:
        """Return the items of a group."""
        return self.tasks[task_index(number, len(self.tasks), self._options.seed)]

    async def unfinished(self) -> Sequence[int]:
        """Return the numbers of groups that a command of this run has left."""
        found = await self._call(pb.ListBatchesRequest, page_size=1000)
        names = (each.name.rpartition(".") for each in found.batches)
        return sorted(int(end) for run, _, end in names if run == self._run and end.isdecimal())

    async def attempts(
        self, name: object, prompts: Iterable[items_pb.BatchPrompt]
    ) -> Sequence[Attempt]:
        """Run a group or go on with it; an attempt that failed or said nothing is left out."""
        batch = await self._finish(f"{self._run}.{name}", list(prompts))
        if batch.state != items_pb.BATCH_STATE_COMPLETED:
            raise FailedPrecondition(f"batch {batch.name} is {state_word(batch)}: {batch.reason}")
        items = await _patiently(lambda: self._items(batch.name))
        stub, turn_ids = self._context.stub(TrajectoryServiceStub), [it.turn_id for it in items]
        read = read_trajectories(stub, self._context.profile, turn_ids)
        async with aclosing(read):
            answers = [each async for each in read]
        failed = items_pb.ITEM_STATE_FAILED
        pairs = zip(items, answers, strict=True)
        return [Attempt(it, each) for it, each in pairs if each and it.state != failed]

    async def remove(self, name: object) -> None:
        """Remove the batch of a group that was sent, or is of no use."""
        await self._call(pb.DeleteBatchRequest, name=f"{self._run}.{name}")
        self._under_way.discard(f"{self._run}.{name}")

    async def stop(self) -> None:
        """Begin no more items; another command of this run goes on."""
        for name in tuple(self._under_way):
            with suppress(grpc.aio.AioRpcError):
                await self._batches.StopBatch(self._context.request(pb.StopBatchRequest, name=name))

    async def _call(self, kind: type[Message], **fields: Any) -> Any:
        method = getattr(self._batches, kind.DESCRIPTOR.name.removesuffix("Request"))
        return await _patiently(lambda: method(self._context.request(kind, **fields)))

    async def _finish(self, name: str, prompts: Sequence[items_pb.BatchPrompt]) -> items_pb.Batch:
        wanted = (self._context.profile, name, self._options, prompts)
        self._under_way.add(name)
        created = await _patiently(lambda: self._batches.CreateBatch(creation_requests(*wanted)))
        if created.batch.state == items_pb.BATCH_STATE_STOPPED:
            await self._call(pb.ResumeBatchRequest, name=name)
        async with aclosing(watch(self._context, name)) as batches:
            return [each async for each in batches][-1]

    async def _items(self, name: str) -> Sequence[items_pb.BatchItem]:
        return [item async for item in all_items(self._context, name)]


async def _patiently(call: Callable[[], Awaitable[_T]]) -> _T:
    """Repeat an idempotent call while the service is away, as after a crash."""
    end = monotonic() + PATIENCE_S
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or monotonic() > end:
                raise
        await asyncio.sleep(1)
