"""See how full the pools of sandboxes are, change their sizes, drain executors, end lost boxes."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hermes.executor.v1 import pool_pb2
from hermes.executor.v1.pool_pb2_grpc import PoolServiceStub
from services.cli.arguments import INT32, Actions, up_to
from services.cli.console import complain, print_json, say
from services.cli.executors import TELL_S, Executor, Executors, executors
from services.cli.standard_input import agreed
from services.cli.startup import load, logged
from services.config import Settings
from services.errors import InvalidArgument, NotFound

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

A pool has the boxes of one template. An executor is named by its endpoint or the beginning of
that."""

LOOK_S = 30.0
"""How long an executor may look through all boxes of its backends."""
REAP_S = 120.0
"""How long boxes may take to end."""
HEADINGS = ("template", "backend", "ready", "claimed", "waiting", "limit", "state")
NO_ORPHANS = "There is no box that nobody knows."

Stats = pool_pb2.PoolStats
Orphan = pool_pb2.OrphanBox


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes pools`."""
    actions = Actions(parser, "list|resize|drain|undrain|orphans|reap")
    listing = actions.add("list", "how many boxes each template has ready, in use and at most")
    _add_common(listing, "only of this one", "one JSON list")
    resize = actions.add("resize", "keep another number ready, until the executor's next start")
    resize.add_argument("template", metavar="TEMPLATE", help="the template, as list shows it")
    resize.add_argument("ready", metavar="N", type=up_to(INT32), help="how many are kept ready")
    resize.add_argument(
        "--limit", metavar="N", type=up_to(INT32), help="how many there may be in all"
    )
    _add_common(resize, "of this one, where there are several", "one JSON object")
    drain = actions.add("drain", "take no new sessions; those that have a sandbox go on")
    _add_common(drain, "this one, where there are several", "one JSON object")
    undrain = actions.add("undrain", "take new sessions again")
    _add_common(undrain, "this one, where there are several", "one JSON object")
    orphans = actions.add("orphans", "the boxes of this installation that nobody knows")
    _add_common(orphans, "only of this one", "one JSON list")
    reap = actions.add("reap", "end boxes that nobody knows, as happens by itself in a minute")
    reap.add_argument("boxes", metavar="BOX", nargs="*", help="only these, as orphans shows them")
    reap.add_argument("--yes", action="store_true", help="do not ask")
    _add_common(reap, "only of this one", "one JSON list of what was ended")


def _add_common(parser: argparse.ArgumentParser, which: str, output: str) -> None:
    parser.add_argument("--executor", metavar="ENDPOINT", help=which)
    parser.add_argument("--json", action="store_true", help=output)


def run(arguments: argparse.Namespace) -> int:
    """Shows or changes pools."""
    settings = load(arguments)
    settings.home.create()
    actions = {
        "list": _list,
        "resize": _resize,
        "drain": _drain,
        "undrain": _undrain,
        "orphans": _orphans,
        "reap": _reap,
    }
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        return asyncio.run(_run(settings, arguments, actions[arguments.action]))


async def _run(
    settings: Settings,
    arguments: argparse.Namespace,
    action: Callable[[Executors, argparse.Namespace], Awaitable[int]],
) -> int:
    async with executors(settings) as deployment:
        return await action(deployment, arguments)


# ---- sizes


async def _list(deployment: Executors, arguments: argparse.Namespace) -> int:
    deployment = deployment.chosen(arguments.executor)
    answers = await deployment.ask(_stats)
    answers.complain()
    if arguments.json:
        print_json([_described(*pair) for pair in answers.told])
    else:
        deployment.print_table(HEADINGS, [(at, _row(pool)) for at, pool in answers.told])
    return 0


async def _stats(at: Executor) -> Sequence[Stats]:
    request = pool_pb2.GetPoolStatsRequest()
    return (await PoolServiceStub(at.channel).GetPoolStats(request, timeout=TELL_S)).pools


async def _resize(deployment: Executors, arguments: argparse.Namespace) -> int:
    at = deployment.one(arguments.executor)
    request = pool_pb2.ResizePoolRequest(
        template=arguments.template, warm_size=arguments.ready, max_size=arguments.limit
    )
    answer = await PoolServiceStub(at.channel).ResizePool(request, timeout=TELL_S)
    if arguments.json:
        print_json(_described(at, answer.pool))
    else:
        pool = answer.pool
        say(f"{pool.template} keeps {pool.warm_size} ready of at most {pool.max_size}")
    return 0


def _row(pool: Stats) -> tuple[str, ...]:
    making = f" +{pool.making_count}" if pool.making_count else ""
    return (
        pool.template,
        pool.backend,
        f"{pool.ready_count} of {pool.warm_size}{making}",
        *map(str, (pool.claimed_count, pool.waiting_count, pool.max_size)),
        "drained" if pool.draining else "open",
    )


def _described(at: Executor, pool: Stats) -> dict[str, Any]:
    return {
        "template": pool.template,
        "executor": at.endpoint or None,
        "backend": pool.backend,
        "ready": pool.ready_count,
        "ready_wanted": pool.warm_size,
        "making": pool.making_count,
        "claimed": pool.claimed_count,
        "waiting": pool.waiting_count,
        "limit": pool.max_size,
        "hits": pool.hit_count,
        "misses": pool.miss_count,
        "draining": pool.draining,
    }


# ---- draining


async def _drain(deployment: Executors, arguments: argparse.Namespace) -> int:
    at = deployment.one(arguments.executor)
    left = await PoolServiceStub(at.channel).Drain(pool_pb2.DrainRequest(), timeout=TELL_S)
    claimed, commands = left.claimed_count, left.running_command_count
    if arguments.json:
        described = {"executor": at.endpoint or None, "draining": True}
        print_json({**described, "claimed": claimed, "running_commands": commands})
    else:
        left_there = f"{_count(claimed, 'sandbox', 'sandboxes')}, {_count(commands, 'command')}"
        say(f"{_name(at)} takes no new sessions; what it still has: {left_there}")
    return 0


async def _undrain(deployment: Executors, arguments: argparse.Namespace) -> int:
    at = deployment.one(arguments.executor)
    await PoolServiceStub(at.channel).Undrain(pool_pb2.UndrainRequest(), timeout=TELL_S)
    if arguments.json:
        print_json({"executor": at.endpoint or None, "draining": False})
    else:
        say(f"{_name(at)} takes new sessions")
    return 0


def _name(at: Executor) -> str:
    return at.endpoint or "the executor"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


# ---- orphans


async def _orphans(deployment: Executors, arguments: argparse.Namespace) -> int:
    deployment = deployment.chosen(arguments.executor)
    answers = await deployment.ask(_lost)
    answers.complain()
    if arguments.json:
        print_json([_described_orphan(*pair) for pair in answers.told])
    elif answers.told:
        _print_orphans(deployment, answers.told)
    else:
        say(NO_ORPHANS)
    return 0


async def _reap(deployment: Executors, arguments: argparse.Namespace) -> int:
    deployment = deployment.chosen(arguments.executor)
    answers = await deployment.ask(_lost)
    answers.complain()
    meant = _meant(answers.told, arguments.boxes)
    if not arguments.yes and meant:
        _print_orphans(deployment, meant)
        question = f"End {_count(len(meant), 'box', 'boxes')} and all that runs there?"
        if not await agreed(question, "end them with --yes"):
            complain("nothing was ended")
            return 1

    async def end(at: Executor) -> Sequence[str]:
        keys = [box.box_key for of, box in meant if of is at]
        request = pool_pb2.ReapRequest(box_keys=keys)
        if not keys:
            return ()
        return (await PoolServiceStub(at.channel).Reap(request, timeout=REAP_S)).box_keys

    ended = await Executors(deployment.each, {}).ask(end)
    ended.complain()
    if arguments.json:
        print_json([{"box_key": key, "executor": at.endpoint or None} for at, key in ended.told])
    elif meant:
        say(f"{_count(len(ended.told), 'box has', 'boxes have')} ended")
    else:
        say(NO_ORPHANS)
    return 1 if ended.silent or answers.silent else 0


def _meant(
    found: Sequence[tuple[Executor, Orphan]], named: Sequence[str]
) -> Sequence[tuple[Executor, Orphan]]:
    """Those that are named, by the beginnings of their keys, or all.

    Fails with NotFound, or with InvalidArgument where a name may be each of several.
    """
    if not named:
        return found
    meant = set[str]()
    for name in named:
        keys = {box.box_key for _, box in found if box.box_key.startswith(name)}
        if not keys:
            raise NotFound(f"there is no box {name} that nobody knows; see: hermes pools orphans")
        if len(keys) > 1:
            listed = ", ".join(sorted(keys))
            raise InvalidArgument(f"{name} could be each of {listed}; say which")
        meant |= keys
    return [(at, box) for at, box in found if box.box_key in meant]


async def _lost(at: Executor) -> Sequence[Orphan]:
    request = pool_pb2.ListOrphansRequest()
    return (await PoolServiceStub(at.channel).ListOrphans(request, timeout=LOOK_S)).boxes


def _print_orphans(deployment: Executors, found: Sequence[tuple[Executor, Orphan]]) -> None:
    rows = [(at, (box.box_key, box.backend, box.native_id, box.template)) for at, box in found]
    deployment.print_table(("box", "backend", "known there as", "template"), rows)


def _described_orphan(at: Executor, box: Orphan) -> dict[str, Any]:
    return {
        "box_key": box.box_key,
        "executor": at.endpoint or None,
        "backend": box.backend,
        "native_id": box.native_id,
        "template": box.template,
    }
