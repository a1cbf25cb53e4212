"""Commands in sandboxes of each backend."""

import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.bench.executor.process import Executor, executor
from tests.bench.figures import BenchError, Missing, Plan, Reading, Spread
from tests.bench.sandboxes import Acquired, Commands, engine_at_rest
from tests.support.grounds import ground
from tests.support.requirements import Skipped

_WARM_UP = 5


async def docker(plan: Plan) -> list[Reading]:
    """Measure commands in a docker sandbox."""
    return [await _alone(plan, "docker", {})]


async def bubblewrap(plan: Plan) -> list[Reading]:
    """Measure commands in a bubblewrap sandbox."""
    return [await _alone(plan, "bubblewrap", {})]


async def ssh(plan: Plan) -> list[Reading]:
    """Measure commands of another account, through a real SSH server on this machine."""
    return [await _on_ground(plan, "ssh")]


async def singularity(plan: Plan) -> list[Reading]:
    """Measure commands in a sandbox of Apptainer."""
    # The Apptainer of the tests has a file system of its own, in which only /tmp is this machine's.
    with tempfile.TemporaryDirectory(prefix="hermes-bench-", dir="/tmp") as folder:
        return [await _on_ground(replace(plan, folder=Path(folder)), "singularity")]


async def kubernetes(plan: Plan) -> list[Reading]:
    """Measure commands in a pod of the stand-in cluster."""
    return [await _on_ground(plan, "kubernetes")]


async def _on_ground(plan: Plan, backend: str) -> Reading:
    try:
        async with ground(backend, plan.folder) as found:
            return await _alone(plan, backend, found.environ)
    except Skipped as skipped:
        raise Missing(str(skipped)) from None


async def _alone(plan: Plan, backend: str, settings: Mapping[str, str]) -> Reading:
    async with _commands(plan, backend, **settings) as commands:
        times_ms = [await commands.run_ms() for _ in range(plan.samples)]
    return Reading(f"exec_{backend}_ms", Spread.of(times_ms))


@asynccontextmanager
async def _commands(plan: Plan, backend: str, **settings: str) -> AsyncGenerator[Commands]:
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(
            executor(plan.folder / backend, backend, **settings)
        )
        commands = Commands(running.channels, await _one(stack, running, backend))
        for _ in range(_WARM_UP):
            await commands.run_ms()
        await engine_at_rest()
        yield commands


async def _one(stack: AsyncExitStack, running: Executor, backend: str) -> Acquired:
    (acquired,) = await stack.enter_async_context(running.sandboxes(1))
    if acquired.backend != backend:
        raise BenchError(f"the sandbox is of {acquired.backend}, not of {backend}")
    return acquired
