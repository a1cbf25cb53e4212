"""Commands in sandboxes."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from tests.bench.executor.process import Executor, executor
from tests.bench.figures import BenchError, Plan, Reading, Spread
from tests.bench.sandboxes import Acquired, Commands, engine_at_rest

_WARM_UP = 5


async def docker(plan: Plan) -> list[Reading]:
    """Measure commands in a docker sandbox."""
    return [await _alone(plan, "docker")]


async def bubblewrap(plan: Plan) -> list[Reading]:
    """Measure commands in a bubblewrap sandbox."""
    return [await _alone(plan, "bubblewrap")]


async def _alone(plan: Plan, backend: str) -> Reading:
    async with _commands(plan, backend) as commands:
        times_ms = [await commands.run_ms() for _ in range(plan.samples)]
    return Reading(f"exec_{backend}_ms", Spread.of(times_ms))


@asynccontextmanager
async def _commands(plan: Plan, backend: str) -> AsyncGenerator[Commands]:
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(executor(plan.folder / backend, backend))
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
