"""Runs of environments: batches whose items are groups of attempts at a task."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from services.cli.batch import creation
from services.cli.batch.progress import follow
from services.cli.batch.report import all_items, state_word
from services.cli.command import JSON_OBJECT, Context, arg
from services.cli.console import StatusLine, complain
from services.home.batches.environment import TOOLSETS, find_environment, make_prompts
from services.home.batches.requests import digest_of
from services.home.paths import DEFAULT_PROFILE, HomePaths

MAX_GROUP = 256
_TOOLSETS = ",".join(TOOLSETS)

OPTIONS = (
    arg("ENVIRONMENT", "name of the environment, from `hermes rl list`"),
    arg("--run NAME", "name of the batch (made from the options)"),
    arg("--toolsets LIST", f"toolsets that may be used ({_TOOLSETS})", default=_TOOLSETS),
    *creation.HOW,
)
BATCH_OPTIONS = (*OPTIONS, creation.WORKERS, creation.BUDGET, JSON_OBJECT)


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


async def environment_prompts(
    context: Context, group_count: int = 0
) -> Sequence[items_pb.BatchPrompt]:
    """Return the items of groups of the environment, whose files the agent then has."""
    given = context.given
    environment = await asyncio.to_thread(find_environment, home_of(context), given.environment)
    toolsets, sizes = tuple(creation.toolsets_of(context).chances), (given.group_size, group_count)
    with StatusLine() as status:
        upload = creation.uploads(context, status)
        return await make_prompts(environment, upload, *sizes, given.seed, toolsets)


async def run_environment(context: Context, purpose: str, group_count: int = 0) -> EnvironmentRun:
    """Run groups of an environment to the end; an earlier run with the same options goes on."""
    given = context.given
    prompts = await environment_prompts(context, group_count)
    options = creation.batch_options(context, given.workers, given.budget)
    digest = digest_of(options, prompts).hex()
    name = given.run or f"{given.environment}.{purpose}.{digest[:8]}"
    batch = await follow(context, await creation.create(context, name, options, prompts))
    if batch.state != items_pb.BATCH_STATE_COMPLETED:
        why = f": {batch.reason}" if batch.reason else ""
        complain(f"{batch.name} is {state_word(batch)}{why}; to continue, run the same command")
    found = [item async for item in all_items(context, batch.name)]
    return EnvironmentRun(batch, found, given.group_size)
