"""Stores a new batch."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.cli.chat import attachments
from services.cli.command import Context
from services.home.batches.dataset import Dataset, DatasetItem, file_paths
from services.home.batches.requests import creation_requests


async def create(context: Context, dataset: Dataset) -> items_pb.Batch:
    """Store a batch of a data set; one that is there stays as it is."""
    given = context.given
    folder = given.dataset.parent
    options = items_pb.BatchOptions(
        worker_count=given.workers,
        model=given.model or "",
        max_model_calls=given.max_turns or 0,
        budget_micro_usd=given.budget or 0,
        sandbox_template=given.sandbox or "",
    )
    toolsets = [each.strip() for each in given.toolsets.split(",") if each.strip()]
    prompts = [await _prompt(context, item, folder, toolsets) for item in dataset.items]
    requests = creation_requests(context.profile, given.name, options, prompts)
    return (await context.stub(BatchServiceStub).CreateBatch(requests)).batch


async def _prompt(
    context: Context, item: DatasetItem, folder: Path, toolsets: Sequence[str]
) -> items_pb.BatchPrompt:
    files = [await asyncio.to_thread(attachments.read, path) for path in file_paths(item, folder)]
    sent = await attachments.upload(context.channels.to("agent"), files) if files else []
    return items_pb.BatchPrompt(
        item_id=item.id,
        prompt=item.prompt,
        files=sent,
        setup=item.setup,
        check=item.check,
        tags=item.tags,
        toolsets=toolsets,
    )
