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
_KB_PER_MB = 1024
_BOXES = ("bwrap",)
"""Programs under which there are sandboxes."""


async def ready(plan: Plan) -> list[Reading]:
    """Measure the time until `hermes up` is ready, in a home that exists."""
    home = plan.folder / "ready"
    first, *again = await _starts(home, plan.repeats + 1)
    note = f"median of {len(again)}; {first:.2f} s where it makes the home"
    return [Reading("ready_s", round(median(again), 3), note)]


async def _starts(home: Path, number: int) -> list[float]:
    """Start Hermes so often; how long each took until it was ready."""
    times_s: list[float] = []
    async with model_process() as url:
        for _ in range(number):
            async with started(home, url) as serving:
                times_s.append(serving.ready_s)
    return times_s


async def idle(plan: Plan) -> list[Reading]:
    """Measure the memory of `hermes up` with a sandbox made ready and no turn yet."""
    async with model_process() as url, started(plan.folder / "idle", url) as serving:
        await serving.until_warm()
        await asyncio.sleep(_SETTLING_S)
        idle_mb = await memory_mb(serving.pid)
    return [Reading("idle_rss_mb", round(idle_mb, 1))]


async def memory_mb(pid: int) -> float:
    """Return the memory (PSS) of a process and of those that it has started, without sandboxes."""
    if not (_PROC / "self" / "smaps_rollup").exists():
        raise Missing("there is no /proc with smaps_rollup")
    return await asyncio.to_thread(lambda: sum(map(pss_kb, _with_children(pid))) / _KB_PER_MB)


async def descriptors(pid: int) -> int:
    """Return how many files and connections the same have open."""
    return await asyncio.to_thread(lambda: sum(map(_open_files, _with_children(pid))))


def _open_files(pid: int) -> int:
    return sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())


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
