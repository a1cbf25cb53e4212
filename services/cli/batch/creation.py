"""Stores a batch."""

import asyncio
from collections.abc import Sequence
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
from services.cli.console import StatusLine, complain, say
from services.cli.tools import check_toolset
from services.errors import InvalidArgument
from services.home.batches.dataset import Upload
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


async def create(
    context: Context, name: str, options: BatchOptions, prompts: Sequence[BatchPrompt]
) -> items_pb.Batch:
    """Store a batch, or let the same one go on if it is there."""
    stub = context.stub(BatchServiceStub)
    is_there = await _is_there(stub, context.request(pb.GetBatchRequest, name=name))
    if not is_there:
        await check_toolsets(context, options, prompts)
    requests = creation_requests(context.profile, name, options, prompts)
    batch = (await stub.CreateBatch(requests)).batch
    return await _continue(context, batch) if is_there else batch


def toolsets_of(context: Context) -> Distribution:
    """Return the toolsets that are named, or a distribution."""
    named = context.given.toolsets
    if named is None:
        return find_distribution(context.settings.home, context.given.distribution)
    names = [each.strip() for each in named.split(",") if each.strip()]
    if not names:
        raise InvalidArgument("--toolsets names none; for a model without tools: --toolsets none")
    return Distribution("", dict.fromkeys(names, 100))


async def check_toolsets(
    context: Context, options: BatchOptions, prompts: Sequence[BatchPrompt]
) -> None:
    """Reject toolsets that do not exist, and warn of those without a tool."""
    request = ListToolsRequest(profile=context.profile, platform=PLATFORM)
    listed = await context.stub(ToolCatalogServiceStub).ListTools(request)
    offered = {NO_TOOLSET, *(tool.toolset for tool in listed.tools if tool.enabled)}
    lacking = sorted({name for prompt in prompts for name in prompt.toolsets} - offered)
    for name in lacking:
        check_toolset(name, listed)
    if lacking and options.distribution != DEFAULT:
        complain(f"there are no tools for {', '.join(lacking)}; see: hermes tools")


def uploads(context: Context, status: StatusLine) -> Upload:
    """Return what gives each file to the agent once."""
    known = dict[Path, MessageFile]()

    async def upload(path: Path) -> MessageFile:
        if path not in known:
            file = await asyncio.to_thread(attachments.read, path)
            (known[path],) = await attachments.upload(context.channels.to("agent"), [file])
            status.show(f"{plural(len(known), 'file')} uploaded")
        return known[path]

    return upload


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
