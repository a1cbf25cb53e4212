"""Runs of environments: batches whose items are groups of attempts at a task."""

import asyncio
import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from services.cli.batch.creation import BUDGET, HOW, WORKERS, create
from services.cli.batch.progress import follow
from services.cli.batch.report import all_items, state_word
from services.cli.command import JSON_OBJECT, Context, arg
from services.cli.console import complain
from services.home.batches.dataset import Dataset
from services.home.batches.environment import TOOLSETS, find_environment, load_tasks, make_items
from services.home.paths import DEFAULT_PROFILE, HomePaths

MAX_GROUP = 256
_TOOLSETS = ",".join(TOOLSETS)
_DECIDING = ("model", "toolsets", "max_turns", "sandbox")
"""The options by which runs differ."""

OPTIONS = (
    arg("ENVIRONMENT", "name of the environment, from `hermes rl list`"),
    arg("--run NAME", "name of the batch (made from the options)"),
    arg("--toolsets LIST", f"toolsets that may be used ({_TOOLSETS})", default=_TOOLSETS),
    *HOW,
)
BATCH_OPTIONS = (*OPTIONS, WORKERS, BUDGET, JSON_OBJECT)


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


async def run_environment(context: Context, purpose: str, group_count: int = 0) -> EnvironmentRun:
    """Run groups of an environment to the end; an earlier run with the same options goes on."""
    given = context.given
    environment = await asyncio.to_thread(find_environment, home_of(context), given.environment)
    tasks = await asyncio.to_thread(load_tasks, environment)
    items = await asyncio.to_thread(make_items, tasks, given.group_size, group_count, given.seed)
    deciding = [items, *(getattr(given, name) for name in _DECIDING)]
    digest = hashlib.sha256(msgspec.json.encode(deciding)).hexdigest()
    name = given.run or f"{environment.name}.{purpose}.{digest[:8]}"
    batch = await follow(context, await create(context, name, Dataset(items)))
    if batch.state != items_pb.BATCH_STATE_COMPLETED:
        why = f": {batch.reason}" if batch.reason else ""
        complain(f"{batch.name} is {state_word(batch)}{why}; to continue, run the same command")
    found = [item async for item in all_items(context, batch.name)]
    return EnvironmentRun(batch, found, given.group_size)
