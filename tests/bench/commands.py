"""Commands that start, answer and end: `--version`, and a question asked once."""

import asyncio
from statistics import median
from time import perf_counter

from tests.bench.figures import BenchError, Plan, Reading
from tests.bench.hermes import home_at
from tests.bench.model_process import model_process
from tests.e2e.home import Home


async def version(plan: Plan) -> list[Reading]:
    """Measure the shortest command."""
    return [await _command("version_s", ("--version",), plan, "")]


async def one_shot(plan: Plan) -> list[Reading]:
    """Measure a question in a home that exists, where no server runs."""
    async with model_process() as url:
        return [await _command("oneshot_s", ("chat", "-q", "hi"), plan, url)]


async def _command(key: str, arguments: tuple[str, ...], plan: Plan, model_url: str) -> Reading:
    home = home_at(plan.folder / key, model_url)
    await asyncio.to_thread(_run, home, arguments)  # makes the home
    times_s = [await asyncio.to_thread(_run, home, arguments) for _ in range(plan.repeats)]
    return Reading(key, round(median(times_s), 3), f"median of {len(times_s)}")


def _run(home: Home, arguments: tuple[str, ...]) -> float:
    """Run a command to its end; returns the seconds from exec to exit."""
    begun = perf_counter()
    result = home.run(*arguments)
    if result.status != 0:
        raise BenchError(f"hermes {' '.join(arguments)}: status {result.status}: {result.err}")
    return perf_counter() - begun
