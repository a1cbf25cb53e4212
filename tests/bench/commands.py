"""Commands that start, answer and end: `--version`, and a question asked once."""

from statistics import median

from tests.bench.figures import Plan, Reading
from tests.bench.hermes import environment, run
from tests.bench.model_process import model_process


async def version(plan: Plan) -> list[Reading]:
    """Measure the shortest command."""
    return [await _command("version_s", ("--version",), plan, "")]


async def one_shot(plan: Plan) -> list[Reading]:
    """Measure a question in a home that exists, where no server runs."""
    async with model_process() as url:
        return [await _command("oneshot_s", ("chat", "-q", "hi"), plan, url)]


async def _command(key: str, arguments: tuple[str, ...], plan: Plan, model_url: str) -> Reading:
    environ = environment(plan.folder / key, model_url)
    await run(arguments, environ)  # makes the home
    times_s = [await run(arguments, environ) for _ in range(plan.repeats)]
    return Reading(key, round(median(times_s), 3), f"median of {len(times_s)}")
