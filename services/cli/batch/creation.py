"""Stores a batch."""

import asyncio
from pathlib import Path

import grpc.aio

from hermes.agent.v1.tool_catalog_pb2 import ListToolsRequest
from hermes.agent.v1.tool_catalog_pb2_grpc import ToolCatalogServiceStub
from hermes.common.v1.content_pb2 import MessageFile
from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_item_pb2 import BatchOptions, BatchPrompt
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.amounts import dollars, plural
from services.cli.arguments import micro_usd, up_to
from services.cli.batch.distributions import DEFAULT, Distribution, find_distribution
from services.cli.batch.progress import UNDER_WAY
from services.cli.chat import attachments
from services.cli.command import Context, arg
from services.cli.console import complain, say
from services.cli.tools import check_toolset
from services.home.batches.dataset import Dataset, file_paths
from services.home.batches.requests import creation_requests

PLATFORM = "batch"
"""Where the turns of batches come from."""
NO_TOOLSET = "none"
HOW = (
    arg("--model NAME", "model to use instead of the configured one"),
    arg("--max-turns N", "maximum number of model calls per item", up_to(1000, 1)),
    arg("--sandbox NAME", "template of the items' sandboxes"),
)
"""Options of all commands that create batches."""
WORKERS = arg("--workers N", "items to run in parallel (8)", up_to(256, 1))
BUDGET = arg("--budget USD", "start no more items after this cost", micro_usd)


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


async def create(
    context: Context, name: str, dataset: Dataset, folder: Path = Path()
) -> items_pb.Batch:
    """Store a batch of a data set in a folder, or let the same one go on if it is there."""
    given, mix = context.given, _toolsets(context)
    options = batch_options(context, given.workers, given.budget)
    options.distribution = mix.name
    paths = {item.id: file_paths(item, folder) for item in dataset.items}
    stub = context.stub(BatchServiceStub)
    is_there = await _is_there(stub, context.request(pb.GetBatchRequest, name=name))
    if not is_there:
        await _check_toolsets(context, mix)
    known = dict.fromkeys(path for each in paths.values() for path in each)
    files = {path: await _file(context, path, uploads=not is_there) for path in known}
    prompts = [
        BatchPrompt(
            item_id=item.id,
            prompt=item.prompt,
            files=[files[path] for path in paths[item.id]],
            setup=item.setup,
            check=item.check,
            tags=item.tags,
            toolsets=mix.sample(given.seed, item.id),
        )
        for item in dataset.items
    ]
    requests = creation_requests(context.profile, name, options, prompts)
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


async def _file(context: Context, path: Path, *, uploads: bool) -> MessageFile:
    read = await asyncio.to_thread(attachments.read, path)
    if not uploads:
        return attachments.message_file(read)
    return (await attachments.upload(context.channels.to("agent"), [read]))[0]


async def _is_there(stub: BatchServiceStub, request: pb.GetBatchRequest) -> bool:
    try:
        await stub.GetBatch(request)
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
        what = "continues" if is_resumed or batch.state in UNDER_WAY else "was run before"
        more = f"; from now on with {' and '.join(changes)}" if changes and not is_done else ""
        say(f"{batch.name} {what}: {batch.done_count} of {batch.item_count} items are done{more}")
    if not is_resumed:
        return batch
    request = context.request(
        pb.ResumeBatchRequest,
        name=batch.name,
        worker_count=given.workers,
        budget_micro_usd=given.budget,
    )
    return (await context.stub(BatchServiceStub).ResumeBatch(request)).batch
