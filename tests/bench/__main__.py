"""Measures Hermes, and shows which bars it reaches: `python -m tests.bench`, or `make bench`.

    python -m tests.bench                          all of it, in about ten minutes
    python -m tests.bench --json figures.json      writes the figures as well
    python -m tests.bench --only turn_plain_ms --samples 20

The exit status is 0 also where a bar is missed, which the table says; it is 1 where something could
not be measured that this machine has the parts for. docs/benchmarks.md explains the figures.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import grpc.aio
import httpx

from tests.bench import commands, execution, model_call, report, startup, throughput, turns
from tests.bench.conditions import Conditions
from tests.bench.figures import FIGURES, BenchError, Missing, Plan, Reading

KEYS = tuple(figure.key for figure in FIGURES)


@dataclass(frozen=True, slots=True)
class Group:
    """Figures that are measured together."""

    keys: Sequence[str]
    measure: Callable[[Plan], Awaitable[list[Reading]]]


GROUPS = (
    Group(("version_s",), commands.version),
    Group(("oneshot_s",), commands.one_shot),
    Group(("ready_s",), startup.ready),
    Group(("idle_rss_mb",), startup.idle),
    Group(("model_call_cpu_ms_20", "model_call_cpu_ms_1000"), model_call.processor_time),
    Group(("turn_plain_ms", "first_token_added_ms", "model_direct_ms"), turns.plain),
    Group(("turn_terminal_ms", "four_sleeps_s"), turns.with_commands),
    Group(("turns_per_s_64",), throughput.turns_per_second),
    Group(("exec_docker_ms", "engine_exec_ms"), execution.docker_commands),
    Group(("exec_bubblewrap_ms",), execution.bubblewrap_commands),
    Group(("acquire_warm_ms", "acquire_cold_ms", "engine_cold_ms"), execution.acquisitions),
)


def main() -> int:
    """Measure what the arguments ask for; returns the exit status."""
    arguments = _arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="hermes-bench-", dir=arguments.folder) as folder:
            plan = Plan(Path(folder), arguments.samples)
            conditions = Conditions(plan.folder)
            readings, failed = asyncio.run(_measure(plan, arguments.only, conditions))
    except Missing as missing:
        sys.exit(f"bench: {missing}")
    if arguments.json:
        arguments.json.write_text(report.as_json(readings), encoding="utf-8")
    return 1 if failed else 0


async def _measure(
    plan: Plan, only: Sequence[str], conditions: Conditions
) -> tuple[dict[str, Reading], bool]:
    readings: dict[str, Reading] = {}
    failed, begun = False, perf_counter()
    conditions.look()
    for group in GROUPS:
        if only and not set(only) & set(group.keys):
            continue
        report.say(f"measuring {', '.join(group.keys)} …")
        try:
            found = await group.measure(plan)
        except Missing as missing:
            found = [Reading(key, None, str(missing)) for key in group.keys]
        except (BenchError, OSError, grpc.aio.AioRpcError, httpx.HTTPError) as error:
            failed = True
            found = [Reading(key, None, f"failed: {_line(error)}") for key in group.keys]
        readings |= {reading.key: reading for reading in found}
        conditions.look()
    report.show(readings)
    report.say(f"{plan.samples} samples in {perf_counter() - begun:.0f} s")
    for line in conditions.lines():
        report.say(line)
    return readings, failed


def _line(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Measures Hermes against its bars."
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--samples", type=int, default=200, help="of each figure in milliseconds")
    parser.add_argument(
        "--only", action="append", default=[], choices=KEYS, metavar="NAME", help="may be repeated"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="a folder on disk for the homes"
    )
    arguments = parser.parse_args()
    if arguments.samples < 1:
        parser.error("--samples: at least 1")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
