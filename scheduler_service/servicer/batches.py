"""BatchService over gRPC."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import ValidationError
from msgspec.structs import replace

from hermes.scheduler.v1 import batch_item_pb2, batch_pb2, batch_pb2_grpc
from scheduler_service.batch_records import (
    DEFAULT_WORKERS,
    Batch,
    BatchItem,
    BatchOptions,
    BatchPrompt,
    BatchState,
    ItemState,
)
from scheduler_service.servicer.messages import profile_of
from scheduler_service.storage import batches
from scheduler_service.storage.batches import CHANNEL
from services.clock import Clock
from services.database import Database
from services.errors import DigestMismatch, InvalidArgument
from services.home.batches.dataset import MAX_FILES, MAX_PROMPT_BYTES, MAX_SCRIPT_BYTES
from services.ids import new_id
from services.rpc.messages import message_of, record_of
from services.rpc.uploads import SHA256_BYTES
from services.validation import check_id, page_size

if TYPE_CHECKING:
    import grpc.aio

    Context = grpc.aio.ServicerContext[Any, Any]

MAX_NAME_CHARS = 80
MAX_ITEMS = 100_000
MAX_WORKERS = 256
_MAX_TAGS = 20
_MAX_TAG_CHARS = 64
_MAX_CALLS = 1000
_MAX_BUDGET = 10**15
_BATCHES_A_PAGE = 50
_ITEMS_A_PAGE = 100
_WATCH_S = 0.5
"""The polling interval of a watched batch, which any replica may work on."""


class BatchServicer(batch_pb2_grpc.BatchServiceServicer):
    """Stores, shows, stops, resumes and deletes batches."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def CreateBatch(
        self, request_iterator: AsyncIterator[batch_pb2.CreateBatchRequest], context: "Context"
    ) -> batch_pb2.CreateBatchResponse:
        first = await anext(request_iterator, batch_pb2.CreateBatchRequest())
        if not first.HasField("header"):
            raise InvalidArgument("a batch begins with its header", fields={"header": "is missing"})
        new = self._new(first.header)
        stored = await self._database.write(partial(batches.begin, new=new))
        if stored is new:
            try:
                count = await self._receive(new, request_iterator)
            except BaseException:
                await self._database.write(partial(batches.discard, batch_id=new.id))
                raise
            if count != new.item_count:
                await self._database.write(partial(batches.discard, batch_id=new.id))
                raise DigestMismatch(f"{count} items came, not {new.item_count}")
            finish = partial(batches.finish_upload, new=new)
            stored = await self._database.write(finish, notify=CHANNEL)
        return batch_pb2.CreateBatchResponse(batch=batch_to_wire(stored))

    def _new(self, header: batch_pb2.CreateBatchRequest.Header) -> Batch:
        check_id("name", header.name, MAX_NAME_CHARS)
        _check("item_count", header.item_count, 1, MAX_ITEMS)
        if len(header.digest) != SHA256_BYTES:
            raise InvalidArgument("no digest", fields={"header.digest": f"{SHA256_BYTES} bytes"})
        return Batch(
            id=new_id("bat"),
            profile=profile_of(header.profile),
            name=header.name,
            digest=header.digest.hex(),
            state=BatchState.UPLOADING,
            options=_options_of(header.options),
            created_at=self._clock.now(),
            item_count=header.item_count,
        )

    async def _receive(
        self, new: Batch, requests: AsyncIterator[batch_pb2.CreateBatchRequest]
    ) -> int:
        """Store the items that come; return their number."""
        count = 0
        async for request in requests:
            prompts = [_prompt_of(item) for item in request.items.items]
            if not prompts or count + len(prompts) > new.item_count:
                problem = f"{new.item_count} in all, at least one a message"
                raise InvalidArgument("these are not the items", fields={"items": problem})
            add = partial(batches.add_items, batch_id=new.id, after=count, prompts=prompts)
            await self._database.write(add)
            count += len(prompts)
        return count

    async def GetBatch(
        self, request: batch_pb2.GetBatchRequest, context: "Context"
    ) -> batch_pb2.GetBatchResponse:
        return batch_pb2.GetBatchResponse(batch=batch_to_wire(await self._get(request)))

    async def ListBatches(
        self, request: batch_pb2.ListBatchesRequest, context: "Context"
    ) -> batch_pb2.ListBatchesResponse:
        limit = page_size(request.page_size, _BATCHES_A_PAGE)
        profile = profile_of(request.profile)
        found = await self._database.read(
            partial(batches.list_newest, profile=profile, limit=limit)
        )
        return batch_pb2.ListBatchesResponse(batches=map(batch_to_wire, found))

    async def WatchBatch(
        self, request: batch_pb2.WatchBatchRequest, context: "Context"
    ) -> AsyncGenerator[batch_pb2.WatchBatchResponse]:
        told = None
        while True:
            found = await self._get(request)
            if found != told:
                yield batch_pb2.WatchBatchResponse(batch=batch_to_wire(found))
                told = found
            is_active = found.state in (BatchState.RUNNING, BatchState.WAITING)
            if not is_active and not found.running_count:
                return
            await asyncio.sleep(_WATCH_S)

    async def StopBatch(
        self, request: batch_pb2.StopBatchRequest, context: "Context"
    ) -> batch_pb2.StopBatchResponse:
        found = await self._get(request)
        await self._database.write(partial(batches.stop, batch_id=found.id, reason=""))
        return batch_pb2.StopBatchResponse(batch=batch_to_wire(await self._get(request)))

    async def ResumeBatch(
        self, request: batch_pb2.ResumeBatchRequest, context: "Context"
    ) -> batch_pb2.ResumeBatchResponse:
        found = await self._get(request)
        options = found.options
        if request.worker_count:
            _check("worker_count", request.worker_count, 1, MAX_WORKERS)
            options = replace(options, worker_count=request.worker_count)
        if request.HasField("budget_micro_usd"):
            _check("budget_micro_usd", request.budget_micro_usd, 0, _MAX_BUDGET)
            options = replace(options, budget_micro_usd=request.budget_micro_usd)
        resume = partial(
            batches.resume, before=found, options=options, retries_failed=request.retries_failed
        )
        resumed = await self._database.write(resume, notify=CHANNEL)
        return batch_pb2.ResumeBatchResponse(batch=batch_to_wire(resumed))

    async def DeleteBatch(
        self, request: batch_pb2.DeleteBatchRequest, context: "Context"
    ) -> batch_pb2.DeleteBatchResponse:
        profile = profile_of(request.profile)
        await self._database.write(partial(batches.delete, profile=profile, name=request.name))
        return batch_pb2.DeleteBatchResponse()

    async def ListItems(
        self, request: batch_pb2.ListItemsRequest, context: "Context"
    ) -> batch_pb2.ListItemsResponse:
        if request.page_token and not request.page_token.isdecimal():
            problem = "is not one that ListItems has given"
            raise InvalidArgument(f"page_token {problem}", fields={"page_token": problem})
        found = await self._get(request)
        listing = partial(
            batches.list_items,
            batch_id=found.id,
            after=int(request.page_token or 0),
            limit=page_size(request.page_size, _ITEMS_A_PAGE),
            ended_only=request.ended_only,
        )
        items, end = await self._database.read(listing)
        return batch_pb2.ListItemsResponse(
            items=map(item_to_wire, items), next_page_token=f"{end}" if end else ""
        )

    async def _get(
        self,
        request: batch_pb2.GetBatchRequest
        | batch_pb2.WatchBatchRequest
        | batch_pb2.StopBatchRequest
        | batch_pb2.ResumeBatchRequest
        | batch_pb2.ListItemsRequest,
    ) -> Batch:
        profile = profile_of(request.profile)
        found = await self._database.read(partial(batches.get, profile=profile, name=request.name))
        if found.state is BatchState.RUNNING:
            found = replace(found, reason=self._database.full_reason)
        return found


def batch_to_wire(batch: Batch) -> batch_item_pb2.Batch:
    """Return the message of a batch."""
    return message_of(
        batch,
        batch_item_pb2.Batch,
        batch_id=batch.id,
        create_time=batch.created_at,
        finish_time=batch.finished_at,
        resume_time=batch.resume_at,
    )


def item_to_wire(item: BatchItem) -> batch_item_pb2.BatchItem:
    """Return the message of an item."""
    state = "running" if item.is_running and item.state is ItemState.PENDING else item.state
    return message_of(
        item,
        batch_item_pb2.BatchItem,
        state=state,
        session_id=item.turn_id,
        start_time=item.started_at,
        finish_time=item.finished_at,
    )


def _options_of(options: batch_item_pb2.BatchOptions) -> BatchOptions:
    _check("worker_count", options.worker_count, 0, MAX_WORKERS)
    _check("max_model_calls", options.max_model_calls, 0, _MAX_CALLS)
    _check("budget_micro_usd", options.budget_micro_usd, 0, _MAX_BUDGET)
    if len(options.model) > 200 or len(options.distribution) > _MAX_TAG_CHARS:
        raise InvalidArgument("a name is too long", fields={"options.model": "is too long"})
    workers = options.worker_count or DEFAULT_WORKERS
    return record_of(options, BatchOptions, worker_count=workers)


def _prompt_of(item: batch_item_pb2.BatchPrompt) -> BatchPrompt:
    check_id("item_id", item.item_id)
    wrong = {
        "prompt": not 1 <= len(item.prompt.strip().encode()) <= MAX_PROMPT_BYTES,
        "setup": len(item.setup.encode()) > MAX_SCRIPT_BYTES or "\0" in item.setup,
        "check": len(item.check.encode()) > MAX_SCRIPT_BYTES or "\0" in item.check,
        "files": max(map(len, (item.files, item.setup_files, item.check_files))) > MAX_FILES,
        "tags": len(item.tags) > _MAX_TAGS or any(len(tag) > _MAX_TAG_CHARS for tag in item.tags),
    }
    fields = {name: "is not valid; see BatchPrompt" for name, is_wrong in wrong.items() if is_wrong}
    if fields:
        named = ", ".join(fields)
        raise InvalidArgument(f"item {item.item_id} is not valid: {named}", fields=fields)
    try:
        return record_of(item, BatchPrompt)
    except ValidationError as error:
        raise InvalidArgument(f"item {item.item_id} is not valid: {error}") from None


def _check(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        problem = f"must be {least} to {most:,}"
        raise InvalidArgument(f"{field} {problem}", fields={field: problem})
