"""Runs of environments: batches whose items are groups of attempts at a task."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.cli.arguments import micro_usd, up_to
from services.cli.batch.progress import follow
from services.cli.batch.report import all_items, state_word
from services.cli.command import Context, arg
from services.cli.console import complain
from services.home.batches.dataset import DatasetItem
from services.home.batches.environment import (
    TOOLSETS,
    batch_prompts,
    find_environment,
    load_tasks,
    make_items,
)
from services.home.batches.requests import creation_requests, digest_of
from services.home.paths import DEFAULT_PROFILE, HomePaths

MAX_GROUP = 256
_TOOLSETS = ",".join(TOOLSETS)

OPTIONS = (
    arg("ENVIRONMENT", "its name; `hermes rl list` shows them"),
    arg("--run NAME", "the name of the batch (by default, it follows from what is run)"),
    arg("--model NAME", "the model, instead of the configured one"),
    arg("--toolsets LIST", f"toolsets that may be used ({_TOOLSETS})", default=_TOOLSETS),
    arg("--max-turns N", "model calls that an item may make", up_to(1000, 1)),
    arg("--sandbox NAME", "the template of which sandboxes are made"),
)
BATCH_OPTIONS = (
    *OPTIONS,
    arg("--workers N", "items at one time (8)", up_to(256, 1), default=8),
    arg("--budget USD", "begin no more items when they have cost so much", micro_usd),
)


class EnvironmentRun(Struct, frozen=True):
    """A batch of an environment that nothing works on any more."""

    batch: items_pb.Batch
    items: Sequence[items_pb.BatchItem]
    """Those that have ended."""
    group_size: int

    @property
    def is_complete(self) -> bool:
        return self.batch.state == items_pb.BATCH_STATE_COMPLETED

    def groups(self) -> Sequence[Sequence[items_pb.BatchItem]]:
        """Return the ended items by group, in the batch's order."""
        found = dict[int, list[items_pb.BatchItem]]()
        for item in self.items:
            found.setdefault((item.position - 1) // self.group_size, []).append(item)
        return [found[number] for number in sorted(found)]


def home_of(context: Context) -> HomePaths:
    """Return the home of the profile."""
    home = context.settings.home
    return home.profile(context.profile or DEFAULT_PROFILE)


async def run_environment(
    context: Context, purpose: str, group_count: int = 0, seed: int = 0
) -> EnvironmentRun:
    """Run groups of an environment to the end; an earlier run with the same options goes on."""
    given = context.given
    environment = await asyncio.to_thread(find_environment, home_of(context), given.environment)
    tasks = await asyncio.to_thread(load_tasks, environment)
    items = await asyncio.to_thread(make_items, tasks, given.group_size, group_count, seed)
    batch = await _create(context, f"{environment.name}.{purpose}", items, seed)
    if batch.state == items_pb.BATCH_STATE_COMPLETED:
        complain(f"{batch.name} is done already; --run NAME runs it anew")
    elif batch.done_count:
        complain(f"{batch.name} goes on: {batch.done_count} of {batch.item_count} items are done")
    if batch.state == items_pb.BATCH_STATE_STOPPED:
        request = context.request(pb.ResumeBatchRequest, name=batch.name)
        batch = (await context.stub(BatchServiceStub).ResumeBatch(request)).batch
    batch = await follow(context, batch)
    if batch.state != items_pb.BATCH_STATE_COMPLETED:
        why = f": {batch.reason}" if batch.reason else ""
        complain(f"{batch.name} is {state_word(batch)}{why}; go on with the same command")
    return EnvironmentRun(
        batch, [item async for item in all_items(context, batch.name)], given.group_size
    )


async def _create(
    context: Context, prefix: str, items: Sequence[DatasetItem], seed: int
) -> items_pb.Batch:
    given = context.given
    options = batch_options(context, given.workers, given.budget, seed)
    prompts = batch_prompts(items, toolsets_of(context))
    name = given.run or f"{prefix}.{digest_of(options, prompts).hex()[:8]}"
    requests = creation_requests(context.profile, name, options, prompts)
    return (await context.stub(BatchServiceStub).CreateBatch(requests)).batch


def batch_options(
    context: Context, worker_count: int, budget_micro_usd: int | None, seed: int
) -> items_pb.BatchOptions:
    """Return how the items are worked on."""
    given = context.given
    return items_pb.BatchOptions(
        worker_count=worker_count,
        model=given.model or "",
        max_model_calls=given.max_turns or 0,
        budget_micro_usd=budget_micro_usd or 0,
        sandbox_template=given.sandbox or "",
        seed=seed,
    )


def toolsets_of(context: Context) -> Sequence[str]:
    """Return the toolsets that are named."""
    return [each.strip() for each in context.given.toolsets.split(",") if each.strip()]
