"""Stores a batch."""

import asyncio
from pathlib import Path

import grpc.aio

from hermes.agent.v1.tool_catalog_pb2 import ListToolsRequest
from hermes.agent.v1.tool_catalog_pb2_grpc import ToolCatalogServiceStub
from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_item_pb2 import BatchOptions, BatchPrompt
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.amounts import dollars, plural
from services.cli.batch.distributions import DEFAULT, Distribution, find_distribution
from services.cli.batch.progress import UNDER_WAY
from services.cli.chat import attachments
from services.cli.command import Context
from services.cli.console import complain, say
from services.cli.tools import check_toolset
from services.home.batches.dataset import Dataset, DatasetItem, file_paths
from services.home.batches.requests import creation_requests

PLATFORM = "batch"
"""Where the turns of batches come from."""
NO_TOOLSET = "none"


def batch_options(
    context: Context, worker_count: int | None, budget_micro_usd: int | None
) -> BatchOptions:
    """Return how the items are worked on."""
    given = context.given
    return BatchOptions(
        worker_count=worker_count or 0,
        model=given.model or "",
        max_model_calls=given.max_turns or 0,
        budget_micro_usd=budget_micro_usd or 0,
        sandbox_template=given.sandbox or "",
        seed=given.seed,
    )


def toolsets_of(context: Context) -> list[str]:
    """Return the toolsets that are named."""
    return [each.strip() for each in context.given.toolsets.split(",") if each.strip()]


async def create(context: Context, dataset: Dataset) -> items_pb.Batch:
    """Store a batch of a data set, or let the same one go on if it is there."""
    given, stub = context.given, context.stub(BatchServiceStub)
    mix = _toolsets(context)
    options = batch_options(context, given.workers, given.budget)
    options.distribution = mix.name
    prompts = [await _prompt(item, given.dataset.parent, mix, given.seed) for item in dataset.items]
    is_there = await _is_there(context)
    if not is_there:
        await _check_toolsets(context, mix)
        await _upload(context, dataset, given.dataset.parent)
    requests = creation_requests(context.profile, given.name, options, prompts)
    batch = (await stub.CreateBatch(requests)).batch
    return await _continue(context, batch) if is_there else batch


def _toolsets(context: Context) -> Distribution:
    if not context.given.toolsets:
        return find_distribution(context.settings.home, context.given.distribution)
    return Distribution("", dict.fromkeys(toolsets_of(context) or [NO_TOOLSET], 100))


async def _check_toolsets(context: Context, mix: Distribution) -> None:
    """Reject toolsets that do not exist, and warn of those without a tool."""
    request = ListToolsRequest(profile=context.profile, platform=PLATFORM)
    listed = await context.stub(ToolCatalogServiceStub).ListTools(request)
    for name in mix.chances:
        if name != NO_TOOLSET:
            check_toolset(name, listed)
    offered = {NO_TOOLSET, *(tool.toolset for tool in listed.tools if tool.enabled)}
    lacking = [name for name in mix.chances if name not in offered]
    if lacking and mix.name != DEFAULT:
        complain(f"there are no tools for {', '.join(lacking)}; see: hermes tools")


async def _prompt(item: DatasetItem, folder: Path, mix: Distribution, seed: int) -> BatchPrompt:
    files = [await asyncio.to_thread(attachments.read, path) for path in file_paths(item, folder)]
    return BatchPrompt(
        item_id=item.id,
        prompt=item.prompt,
        files=map(attachments.message_file, files),
        setup=item.setup,
        check=item.check,
        tags=item.tags,
        toolsets=mix.sample(seed, item.id),
    )


async def _upload(context: Context, dataset: Dataset, folder: Path) -> None:
    agent = context.channels.to("agent")
    for path in dict.fromkeys(path for item in dataset.items for path in file_paths(item, folder)):
        await attachments.upload(agent, [await asyncio.to_thread(attachments.read, path)])


async def _is_there(context: Context) -> bool:
    try:
        await context.stub(BatchServiceStub).GetBatch(context.request(pb.GetBatchRequest))
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return False
    return True


async def _continue(context: Context, batch: items_pb.Batch) -> items_pb.Batch:
    """Let a batch go on, with the workers and the budget that are given."""
    given, changes = context.given, list[str]()
    if given.workers not in (None, batch.options.worker_count):
        changes.append(plural(given.workers, "worker"))
    if given.budget not in (None, batch.options.budget_micro_usd):
        changes.append(f"a budget of {dollars(given.budget)}")
    is_done = batch.state == items_pb.BATCH_STATE_COMPLETED
    is_resumed = not is_done and (changes or batch.state == items_pb.BATCH_STATE_STOPPED)
    if not given.json:
        what = "goes on" if is_resumed or batch.state in UNDER_WAY else "was run before"
        more = f"; from now on with {' and '.join(changes)}" if changes and not is_done else ""
        say(f"{given.name} {what}: {batch.done_count} of {batch.item_count} items are done{more}")
    if not is_resumed:
        return batch
    request = context.request(
        pb.ResumeBatchRequest, worker_count=given.workers, budget_micro_usd=given.budget
    )
    return (await context.stub(BatchServiceStub).ResumeBatch(request)).batch
