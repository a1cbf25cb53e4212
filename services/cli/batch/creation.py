"""Stores a new batch."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from google.protobuf.message import Message

from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_item_pb2 import BatchOptions, BatchPrompt
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.cli.batch.dataset import Dataset, DatasetItem, file_paths
from services.cli.chat import attachments
from services.cli.command import Context


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
    header = pb.CreateBatchRequest.Header(
        profile=context.profile,
        name=given.name,
        options=options,
        item_count=len(prompts),
        digest=digest_of(options, prompts),
    )

    async def requests() -> AsyncIterator[pb.CreateBatchRequest]:
        yield pb.CreateBatchRequest(header=header)
        for chunk in in_chunks(prompts):
            yield pb.CreateBatchRequest(items=pb.CreateBatchRequest.Items(items=chunk))

    return (await context.stub(BatchServiceStub).CreateBatch(requests())).batch


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


def digest_of(options: BatchOptions, prompts: Sequence[BatchPrompt]) -> bytes:
    """Return the SHA-256 digest by which a batch is known again."""
    digest = hashlib.sha256()
    # Other workers change nothing but the time.
    kept = BatchOptions()
    kept.CopyFrom(options)
    kept.ClearField("worker_count")
    messages: Sequence[Message] = (kept, *prompts)
    for message in messages:
        encoded = message.SerializeToString(deterministic=True)
        digest.update(len(encoded).to_bytes(8) + encoded)
    return digest.digest()


def in_chunks(
    prompts: Sequence[BatchPrompt], most_bytes: int = 512 * 1024
) -> Iterator[list[BatchPrompt]]:
    """Yield prompts in lists that fit into a message."""
    chunk, size_bytes = list[BatchPrompt](), 0
    for prompt in prompts:
        length_bytes = prompt.ByteSize()
        if chunk and size_bytes + length_bytes > most_bytes:
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(prompt)
        size_bytes += length_bytes
    if chunk:
        yield chunk
