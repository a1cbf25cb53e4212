"""Sandboxes that are ready, and sandboxes that are not."""

from time import perf_counter

from hermes.executor.v1 import sandbox_pb2
from tests.bench.executor.process import Executor, executor
from tests.bench.figures import BenchError, Plan, Reading, Spread
from tests.bench.sandboxes import Commands, acquire, release


async def acquisitions(plan: Plan) -> list[Reading]:
    """Measure ready sandboxes, and new ones up to a first command."""
    warm_ms: list[float] = []
    cold_ms: list[float] = []
    async with executor(plan.folder / "acquire", "docker") as running:
        while len(warm_ms) < plan.samples:
            await running.resize(warm=1, most=4)
            warm_ms.append(await _acquire_ms(running, sandbox_pb2.LAUNCH_KIND_WARM))
            await running.resize(warm=0, most=4)
            cold_ms.append(await _cold_ms(running))
    return [
        Reading("acquire_warm_ms", Spread.of(warm_ms)),
        Reading("acquire_cold_ms", Spread.of(cold_ms)),
    ]


async def _acquire_ms(running: Executor, launch: "sandbox_pb2.LaunchKind.ValueType") -> float:
    await running.until_warm()
    acquired = await acquire(running.channels)
    if acquired.launch != launch:
        raise BenchError(f"a sandbox was {sandbox_pb2.LaunchKind.Name(acquired.launch)}")
    await release(running.channels, acquired)
    return acquired.took_ms


async def _cold_ms(running: Executor) -> float:
    """A new sandbox and a command in it."""
    begun = perf_counter()
    acquired = await acquire(running.channels)
    await Commands(running.channels, acquired).run_ms()
    took_ms = (perf_counter() - begun) * 1_000
    if acquired.launch != sandbox_pb2.LAUNCH_KIND_COLD:
        raise BenchError(f"a sandbox was {sandbox_pb2.LaunchKind.Name(acquired.launch)}")
    await release(running.channels, acquired)
    return took_ms
