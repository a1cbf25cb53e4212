"""Writes the conversations of a batch as a data set to train with."""

import argparse
import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from time import monotonic

from msgspec.structs import replace

from hermes.agent.v1.trajectory_pb2_grpc import TrajectoryServiceStub
from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.cli.batch.report import all_items, score_of
from services.cli.command import Context, arg
from services.cli.console import StatusLine
from services.cli.trajectories.options import OPTIONS, dataset_writer, print_counts
from services.cli.trajectories.reader import read_trajectories
from services.home.trajectories.trajectory import Facts, Trajectory
from services.lifecycle import ungrouped

_CHUNK, _CHUNKS = 32, 4
"""Items that are read with one call, and calls at one time; no more are in memory."""


def _score(text: str) -> float:
    score = float(text)
    if not 0 <= score <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return score


EXPORT_OPTIONS = (
    *OPTIONS,
    arg("--min-score S", "leave out items with a lower score, 0 to 1, or with none", _score),
)


async def export(context: Context) -> None:
    """Write the conversations of items that have ended as a data set."""
    request = context.request(pb.GetBatchRequest)
    batch = (await context.stub(BatchServiceStub).GetBatch(request)).batch
    # The agent has redacted them.
    dataset = await asyncio.to_thread(partial(dataset_writer, context, redacts=False))
    with ungrouped(), dataset as writer, StatusLine() as status:
        began, read = monotonic(), 0
        waiting = deque[asyncio.Task[Sequence[Trajectory | None]]]()

        async def write() -> None:
            nonlocal read
            found = await waiting.popleft()
            trajectories = [each for each in found if each is not None]
            if missing := len(found) - len(trajectories):
                writer.counts["no conversation"] += missing
            await asyncio.to_thread(writer.add_all, trajectories)
            read += len(found)
            status.show(f"{read} of {batch.done_count}, {read / (monotonic() - began):.0f}/s")

        async with asyncio.TaskGroup() as group:
            chunk = list[items_pb.BatchItem]()
            async for item in all_items(context, batch.name):
                if not _is_wanted(item, context.given.min_score):
                    writer.counts["low score"] += 1
                    continue
                chunk.append(item)
                if len(chunk) == _CHUNK:
                    waiting.append(group.create_task(_read(context, batch, chunk)))
                    chunk = []
                if len(waiting) == _CHUNKS:
                    await write()
            waiting.append(group.create_task(_read(context, batch, chunk)))
            while waiting:
                await write()
            await asyncio.to_thread(writer.drain)
    print_counts(context, writer)


def _is_wanted(item: items_pb.BatchItem, min_score: float | None) -> bool:
    score = score_of(item)
    return min_score is None or (score is not None and score >= min_score)


async def _read(
    context: Context, batch: items_pb.Batch, items: Sequence[items_pb.BatchItem]
) -> Sequence[Trajectory | None]:
    stub = context.stub(TrajectoryServiceStub)
    turns = [item.turn_id for item in items]
    read = [each async for each in read_trajectories(stub, context.profile, turns)]
    return [
        found if found is None else replace(found, facts=_facts(batch, item))
        for item, found in zip(items, read, strict=True)
    ]


def _facts(batch: items_pb.Batch, item: items_pb.BatchItem) -> Facts:
    return Facts(
        id=item.prompt.item_id,
        score=score_of(item),
        finish_reason=item.result.finish_reason,
        tags=tuple(item.prompt.tags),
        toolsets=tuple(item.prompt.toolsets),
        seed=batch.options.seed,
    )
