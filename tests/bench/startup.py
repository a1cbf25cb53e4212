"""Starting `hermes up`, and what it takes while nobody talks to it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.bench.figures import Missing, Plan, Reading
from tests.bench.hermes import started
from tests.bench.model_process import model_process

_PROC = Path("/proc")
_SETTLING_S = 2.0
_BOXES = ("bwrap",)
"""Programs under which there are sandboxes."""


async def ready(plan: Plan) -> list[Reading]:
    """Measure the time until `hermes up` is ready, in a home that exists."""
    times_s: list[float] = []
    async with model_process() as url:
        for _ in range(plan.repeats + 1):
            async with started(plan.folder / "ready", url) as serving:
                times_s.append(serving.ready_s)
    again = times_s[1:]
    note = f"median of {len(again)}; {times_s[0]:.2f} s where it makes the home"
    return [Reading("ready_s", round(median(again), 3), note)]


async def idle(plan: Plan) -> list[Reading]:
    """Measure the memory of `hermes up` with a sandbox made ready and no turn yet."""
    if not (_PROC / "self" / "smaps_rollup").exists():
        raise Missing("there is no /proc with smaps_rollup")
    async with model_process() as url, started(plan.folder / "idle", url) as serving:
        await serving.until_warm()
        await asyncio.sleep(_SETTLING_S)
        processes = await asyncio.to_thread(lambda: list(_with_children(serving.process.pid)))
        total_kb = await asyncio.to_thread(lambda: sum(map(pss_kb, processes)))
    note = f"{len(processes)} process{'es' if len(processes) > 1 else ''}"
    return [Reading("idle_rss_mb", round(total_kb / 1024, 1), note)]


def _with_children(pid: int) -> Iterator[int]:
    """Yield a process and those that it has started, but no sandbox."""
    if (_PROC / str(pid) / "comm").read_text().strip() in _BOXES:
        return
    yield pid
    for children in (_PROC / str(pid) / "task").glob("*/children"):
        for child in children.read_text().split():
            yield from _with_children(int(child))


def pss_kb(pid: int) -> int:
    """Return a process's share of the memory that it maps."""
    lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
