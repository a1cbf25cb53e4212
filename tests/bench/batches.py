"""Batches: how fast their items are, and how soon they go on after every process was killed."""

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
from tests.e2e.backends import sandboxed
from tests.e2e.deployment import LEAVE_NOTHING, Deployment, four_processes, running
from tests.e2e.home import Home

_ITEMS = 5000
_BETWEEN = 10
"""Items that are done between two kills."""
_TIMEOUT_S = 60.0
_WORKERS = 8
_ITEMS_PER_SAMPLE = 2
_WAIT = {"latency_s": 0.05}
_TRUE = {"name": "terminal", "arguments": {"command": "true"}}
_SCRIPT = {"rules": [{"steps": [{"tool_calls": [_TRUE], **_WAIT}, {"text": "Done.", **_WAIT}]}]}


async def resumed(plan: Plan) -> list[Reading]:
    """Measure the time from `hermes batch resume` to the first item that is done."""
    async with model_process() as url:
        home = home_at(plan.folder / "batch", url)
        times_s = await asyncio.to_thread(_resume, home, plan.repeats)
        async with hermes(home.path, url, **LEAVE_NOTHING):
            pass  # ends the sandboxes that are left
    return [Reading("batch_resume_s", round(median(times_s), 3), f"median of {len(times_s)}")]


async def items(plan: Plan) -> list[Reading]:
    """Measure a batch whose items run one command each, with a process for each service."""
    async with model_process(_SCRIPT) as url:
        return [await asyncio.to_thread(_run_items, plan, url)]


def _run_items(plan: Plan, url: str) -> Reading:
    folder, number = plan.folder / "items", _ITEMS_PER_SAMPLE * plan.samples
    folder.mkdir()
    with running(four_processes(folder, url, sandboxed("bubblewrap"))) as deployment:
        _run(deployment, "warm", 2 * _WORKERS)
        begun = perf_counter()
        _run(deployment, "bench", number)
        rate = number / (perf_counter() - begun)
    return Reading("batch_items_per_s", round(rate, 1), f"{number} items, {_WORKERS} at a time")


def _run(deployment: Deployment, name: str, number: int) -> None:
    file = deployment.folder / f"{name}.jsonl"
    file.write_text(f"{json.dumps({'prompt': COMMAND})}\n" * number)
    command = ("batch", "run", file, "--run", name, "--workers", _WORKERS)
    done = deployment.client.run(*map(str, command), "--toolsets", "terminal")
    if done.status:
        raise BenchError(f"the batch failed: {done.err}")


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
