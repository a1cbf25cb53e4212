"""Show and resize pools of sandboxes, drain executors, and end lost sandboxes."""

from collections.abc import Sequence
from functools import partial

from hermes.executor.v1 import pool_pb2
from hermes.executor.v1.pool_pb2_grpc import PoolServiceStub
from services.amounts import plural
from services.cli.arguments import INT32, up_to
from services.cli.command import YES, Argument, Command, Context, action, arg, flag
from services.cli.console import say
from services.cli.output import Column, print_rows
from services.cli.sandboxes.executors import TELL_S, Executor, Executors, at_executors

EXAMPLES = """\
examples:
  hermes pools list
  hermes pools resize default 4
  hermes pools resize gvisor 0 --limit 8 --executor executor-1
  hermes pools drain --executor executor-1.example.org:7402
  hermes pools undrain --executor executor-1
  hermes pools orphans --json
  hermes pools reap --yes
  hermes pools reap sbx_06h00k5s --executor executor-2

A pool has the sandboxes of one template. Give an executor by its endpoint or the beginning of
it."""

LOOK_S = 30.0
"""The timeout of listing all boxes of the backends."""
REAP_S = 120.0
"""The timeout of ending boxes."""
NO_ORPHANS = "There are no lost sandboxes."


def _ready(pool: pool_pb2.PoolStats) -> str:
    making = f" +{pool.making_count}" if pool.making_count else ""
    return f"{pool.ready_count} of {pool.warm_size}{making}"


POOL = (
    Column("template", "template"),
    Column("backend", "backend"),
    Column("", "ready", _ready),
    Column("ready", source="ready_count"),
    Column("ready_wanted", source="warm_size"),
    Column("making", source="making_count"),
    Column("claimed", "claimed", "claimed_count"),
    Column("waiting", "waiting", "waiting_count"),
    Column("limit", "limit", "max_size"),
    Column("hits", source="hit_count"),
    Column("misses", source="miss_count"),
    Column("draining", "state", cell=lambda draining: "drained" if draining else "open"),
)
ORPHAN = (
    Column("box_key", "box"),
    Column("backend", "backend"),
    Column("native_id", "known there as"),
    Column("template", "template"),
)


@at_executors
async def _list(context: Context, deployment: Executors) -> None:
    """Show how many sandboxes each template has ready and in use, and the limit."""

    async def ask(at: Executor) -> Sequence[pool_pb2.PoolStats]:
        request = pool_pb2.GetPoolStatsRequest()
        return (await PoolServiceStub(at.channel).GetPoolStats(request, timeout=TELL_S)).pools

    chosen = deployment.chosen(context.given.executor)
    chosen.print_list(context, await chosen.ask(ask), POOL)


@at_executors
async def _resize(context: Context, deployment: Executors) -> None:
    """Change how many sandboxes a pool keeps ready, until the executor restarts."""
    at = deployment.one(context.given.executor)
    request = context.request(pool_pb2.ResizePoolRequest)
    pool = (await PoolServiceStub(at.channel).ResizePool(request, timeout=TELL_S)).pool
    sentence = f"{pool.template} keeps {pool.warm_size} sandboxes ready (limit {pool.max_size})"
    context.print_one((at, pool), deployment.columns(POOL), sentence)


@at_executors
async def _drain(context: Context, deployment: Executors) -> None:
    """Stop giving sandboxes to new sessions; current sessions continue."""
    at = deployment.one(context.given.executor)
    left = await PoolServiceStub(at.channel).Drain(pool_pb2.DrainRequest(), timeout=TELL_S)
    claimed, running = left.claimed_count, left.running_command_count
    has = f"{plural(claimed, 'sandbox', 'sandboxes')}, {plural(running, 'command')}"
    sentence = f"{at.name} is drained; still in use: {has}"
    told = {"draining": True, "claimed": claimed, "running_commands": running}
    context.print_value({**told, "executor": at.endpoint or None}, sentence)


@at_executors
async def _undrain(context: Context, deployment: Executors) -> None:
    """Give sandboxes to new sessions again."""
    at = deployment.one(context.given.executor)
    await PoolServiceStub(at.channel).Undrain(pool_pb2.UndrainRequest(), timeout=TELL_S)
    told = {"draining": False, "executor": at.endpoint or None}
    context.print_value(told, f"{at.name} accepts new sessions")


async def _lost(at: Executor) -> Sequence[pool_pb2.OrphanBox]:
    request = pool_pb2.ListOrphansRequest()
    return (await PoolServiceStub(at.channel).ListOrphans(request, timeout=LOOK_S)).boxes


@at_executors
async def _orphans(context: Context, deployment: Executors) -> None:
    """List lost sandboxes: they belong to this installation, but no executor uses them."""
    chosen = deployment.chosen(context.given.executor)
    chosen.print_list(context, await chosen.ask(_lost), ORPHAN, NO_ORPHANS)


@at_executors
async def _reap(context: Context, deployment: Executors) -> int:
    """End lost sandboxes now; executors do so by themselves within a minute."""
    chosen = deployment.chosen(context.given.executor)
    lost = meant = await chosen.ask(_lost)
    if context.given.boxes:
        find = partial(
            chosen.pick, told=lost, ident=_key, what="lost sandbox", see="hermes pools orphans"
        )
        meant = [pair for named in context.given.boxes for pair in find(named)]
    if meant and not context.given.yes:
        print_rows(meant, chosen.columns(ORPHAN))
        question = f"End {plural(len(meant), 'lost sandbox', 'lost sandboxes')} and their commands?"
        await context.confirm(question, "use --yes", "nothing was ended")

    async def end(at: Executor) -> Sequence[str]:
        keys = dict.fromkeys(box.box_key for of, box in meant if of is at)
        request = pool_pb2.ReapRequest(box_keys=keys)
        if not keys:
            return ()
        return (await PoolServiceStub(at.channel).Reap(request, timeout=REAP_S)).box_keys

    ended = await chosen.ask(end)
    if context.given.json or not meant:
        chosen.print_list(context, ended, (Column("box_key", source=str),), NO_ORPHANS)
    else:
        chosen.complain()
        say(f"ended {plural(len(ended), 'sandbox', 'sandboxes')}")
    return 1 if chosen.silent else 0


def _key(box: pool_pb2.OrphanBox) -> str:
    return box.box_key


def _common(which: str, output: str) -> tuple[Argument, Argument]:
    return arg("--executor ENDPOINT", which), flag("--json", output)


_LIMIT = "maximum number of sandboxes"
_ONE = _common("executor, if there are several", "print a JSON object")
_EACH = _common("only this executor", "print a JSON list")
COMMAND = Command(
    EXAMPLES,
    actions=(
        action(_list, *_EACH),
        action(
            _resize,
            arg("TEMPLATE", "template of the pool"),
            arg("N", "how many sandboxes to keep ready", up_to(INT32), field="warm_size"),
            arg("--limit N", _LIMIT, up_to(INT32), field="max_size"),
            *_ONE,
        ),
        action(_drain, *_ONE),
        action(_undrain, *_ONE),
        action(_orphans, *_EACH),
        action(
            _reap,
            arg("BOX*", "only these, from hermes pools orphans", field="boxes"),
            YES,
            *_common("only this executor", "print a JSON list of the ended sandboxes"),
        ),
    ),
)
