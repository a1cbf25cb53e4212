"""A bench as a program: which figures there are, who measures them, and how they are shown."""

import argparse
import asyncio
import os
import platform
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import grpc.aio
import httpx

from tests.bench import report
from tests.bench.figures import BenchError, Figure, Missing, Plan, Reading


@dataclass(frozen=True, slots=True)
class Group:
    """Figures that are measured together."""

    keys: Sequence[str]
    measure: Callable[[Plan], Awaitable[list[Reading]]]


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured together and shown as one table."""

    program: str
    description: str
    figures: Sequence[Figure]
    groups: Sequence[Group]
    samples: int = 200
    sampled: str = "of each figure in milliseconds"

    def main(self) -> int:
        """Measure what the arguments ask for; returns the exit status."""
        arguments = self._arguments()
        where = arguments.folder
        with tempfile.TemporaryDirectory(prefix="hermes-bench-", dir=where) as folder:
            plan = Plan(Path(folder), arguments.samples)
            readings, failed = asyncio.run(self._measure(plan, arguments.only))
        if arguments.json:
            text = report.as_json(self.figures, readings)
            arguments.json.write_text(text, encoding="utf-8")
        return 1 if failed else 0

    async def _measure(self, plan: Plan, only: Sequence[str]) -> tuple[dict[str, Reading], bool]:
        readings: dict[str, Reading] = {}
        failed, begun = False, perf_counter()
        load = os.getloadavg()[0]
        for group in self.groups:
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
        report.show(self.figures, readings)
        report.say(f"{plan.samples} samples in {perf_counter() - begun:.0f} s")
        python, processors = platform.python_version(), os.cpu_count()
        after = os.getloadavg()[0]
        report.say(
            f"Python {python}, {processors} processors, load {load:.1f} and then {after:.1f}"
        )
        return readings, failed

    def _arguments(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(prog=self.program, description=self.description)
        parser.add_argument(
            "--json", type=Path, metavar="FILE", help="write the figures there as well"
        )
        parser.add_argument("--samples", type=int, default=self.samples, help=self.sampled)
        keys = [figure.key for figure in self.figures]
        parser.add_argument(
            "--only",
            action="append",
            default=[],
            choices=keys,
            metavar="NAME",
            help="may be repeated",
        )
        parser.add_argument(
            "--folder", type=Path, default=Path("/var/tmp"), help="a folder on disk for the homes"
        )
        arguments = parser.parse_args()
        if arguments.samples < 1:
            parser.error("--samples: at least 1")
        return arguments


def _line(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__
