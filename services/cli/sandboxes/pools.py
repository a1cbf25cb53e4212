"""Show and resize pools of sandboxes, and drain executors."""

from collections.abc import Sequence

from hermes.executor.v1 import pool_pb2
from hermes.executor.v1.pool_pb2_grpc import PoolServiceStub
from services.amounts import plural
from services.cli.arguments import INT32, up_to
from services.cli.command import Argument, Command, Context, action, arg, flag
from services.cli.output import Column
from services.cli.sandboxes.executors import TELL_S, Executor, Executors, at_executors, json_of

EXAMPLES = """\
examples:
  hermes pools list
  hermes pools resize default 4
  hermes pools resize gvisor 0 --limit 8 --executor executor-1
  hermes pools drain --executor executor-1.example.org:7402
  hermes pools undrain --executor executor-1

A pool has the sandboxes of one template. Give an executor by its endpoint or the beginning of
it."""


def _ready(pool: pool_pb2.PoolStats) -> str:
    making = f" +{pool.making_count}" if pool.making_count else ""
    return f"{pool.ready_count} of {pool.warm_size}{making}"


POOL = (
    Column("template"),
    Column("backend"),
    Column("ready", _ready),
    Column("claimed", "claimed_count"),
    Column("waiting", "waiting_count"),
    Column("limit", "max_size"),
    Column("state", "draining", lambda draining: "drained" if draining else "open"),
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
    context.print_value(json_of(at, pool), sentence)


@at_executors
async def _drain(context: Context, deployment: Executors) -> None:
    """Stop giving sandboxes to new sessions; current sessions continue."""
    at = deployment.one(context.given.executor)
    left = await PoolServiceStub(at.channel).Drain(pool_pb2.DrainRequest(), timeout=TELL_S)
    claimed, running = left.claimed_count, left.running_command_count
    has = f"{plural(claimed, 'sandbox', 'sandboxes')}, {plural(running, 'command')}"
    sentence = f"{at.name} is drained; still in use: {has}"
    context.print_value(json_of(at, left), sentence)


@at_executors
async def _undrain(context: Context, deployment: Executors) -> None:
    """Give sandboxes to new sessions again."""
    at = deployment.one(context.given.executor)
    answer = await PoolServiceStub(at.channel).Undrain(pool_pb2.UndrainRequest(), timeout=TELL_S)
    context.print_value(json_of(at, answer), f"{at.name} accepts new sessions")


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
    ),
)
