"""Batches whose every process was killed."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import median
from subprocess import DEVNULL
from time import monotonic, perf_counter, sleep

from tests.bench.figures import BenchError, Plan, Reading
from tests.bench.hermes import hermes, home_at
from tests.bench.model_process import COMMAND, model_process
from tests.e2e.deployment import LEAVE_NOTHING
from tests.e2e.home import Home

_ITEMS = 5000
_BETWEEN = 10
"""Items that are done between two kills."""
_TIMEOUT_S = 60.0


async def resumed(plan: Plan) -> list[Reading]:
    """Measure the time from `hermes batch resume` to the first item that is done."""
    async with model_process() as url:
        home = home_at(plan.folder / "batch", url)
        times_s = await asyncio.to_thread(_resume, home, plan.repeats)
        async with hermes(home.path, url, **LEAVE_NOTHING):
            pass  # ends the sandboxes that are left
    return [Reading("batch_resume_s", round(median(times_s), 3), f"median of {len(times_s)}")]


def _resume(home: Home, number: int) -> list[float]:
    items = home.path.with_name("items.jsonl")
    items.write_text(f"{json.dumps({'prompt': COMMAND})}\n" * _ITEMS)
    command, times_s = ("batch", "run", items, "--run", "bench"), list[float]()
    for _ in range(number + 1):
        begun, before = perf_counter(), _done(home.path)
        with home.spawn(*command, stdout=DEVNULL, stderr=DEVNULL) as process:
            _wait(home.path, before + 1)
            times_s.append(perf_counter() - begun)
            _wait(home.path, before + _BETWEEN)
            process.kill()
        command = ("batch", "resume", "bench")
    home.run("batch", "stop", "bench")
    return times_s[1:]


def _wait(home: Path, count: int) -> None:
    ends_at = monotonic() + _TIMEOUT_S
    while _done(home) < count:
        if monotonic() > ends_at:
            raise BenchError("the batch does not go on")
        sleep(0.01)


def _done(home: Path) -> int:
    """Ask the database, which is there while no process serves."""
    file = home / "state" / "scheduler.db"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        try:
            return database.execute("SELECT coalesce(max(done_count), 0) FROM batch").fetchone()[0]
        except sqlite3.OperationalError:  # its tables are being made
            return 0
