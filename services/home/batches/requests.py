"""Requests that store a batch."""

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence

from google.protobuf.message import Message

from hermes.scheduler.v1.batch_item_pb2 import BatchOptions, BatchPrompt
from hermes.scheduler.v1.batch_pb2 import CreateBatchRequest


async def creation_requests(
    profile: str, name: str, options: BatchOptions, prompts: Sequence[BatchPrompt]
) -> AsyncIterator[CreateBatchRequest]:
    """Yield the messages of CreateBatch; an empty profile is the default one."""
    header = CreateBatchRequest.Header(
        profile=profile,
        name=name,
        options=options,
        item_count=len(prompts),
        digest=digest_of(options, prompts),
    )
    yield CreateBatchRequest(header=header)
    for chunk in in_chunks(prompts):
        yield CreateBatchRequest(items=CreateBatchRequest.Items(items=chunk))


def digest_of(options: BatchOptions, prompts: Sequence[BatchPrompt]) -> bytes:
    """Return the SHA-256 digest by which a batch is known again."""
    digest = hashlib.sha256()
    # These may change while the batch is there.
    kept = BatchOptions()
    kept.CopyFrom(options)
    kept.ClearField("worker_count")
    kept.ClearField("budget_micro_usd")
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
