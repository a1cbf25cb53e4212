"""Sandboxes that are ready, that are not, and what they cost while nothing happens."""

import asyncio
from time import perf_counter

from hermes.executor.v1 import sandbox_pb2
from tests.bench.engine import engine
from tests.bench.executor.process import Executor, executor
from tests.bench.figures import BenchError, Plan, Reading, Spread
from tests.bench.sandboxes import Commands, acquire, release

_DRAINED = 8
"""Sessions that come at once when one sandbox is ready."""
_IDLE = 50
_STREAMS = 500
_SLEEPERS = 10
_SETTLING_S = 3.0


async def acquisitions(plan: Plan) -> list[Reading]:
    """Measure ready sandboxes, and new ones up to a first command beside the bare engine's."""
    warm_ms: list[float] = []
    cold_ms: list[float] = []
    bare_ms: list[float] = []
    async with engine() as bare, executor(plan.folder / "acquire", "docker") as running:
        while len(warm_ms) < plan.samples:
            await running.resize(warm=1, most=4)
            warm_ms.append(await _acquire_ms(running, sandbox_pb2.LAUNCH_KIND_WARM))
            await running.resize(warm=0, most=4)
            cold_ms.append(await _cold_ms(running))
            bare_ms.append(await bare.cold_ms())
    cold, theirs = Spread.of(cold_ms), Spread.of(bare_ms)
    return [
        Reading("acquire_warm_ms", Spread.of(warm_ms)),
        Reading("acquire_cold_ms", cold),
        Reading("engine_cold_ms", theirs),
        Reading("cold_to_engine", round(cold.p50 / theirs.p50, 2)),
    ]


async def drained(plan: Plan) -> list[Reading]:
    """Measure how long each of several sessions waits that come at once to a pool of one."""
    waits_ms: list[float] = []
    async with engine(), executor(plan.folder / "drained", "docker") as running:
        for _ in range(plan.repeats):
            await running.until_warm()
            got = await asyncio.gather(*(acquire(running.channels) for _ in range(_DRAINED)))
            waits_ms += [one.took_ms for one in got]
            await asyncio.gather(*(release(running.channels, one) for one in got))
    return [Reading("acquire_drained_ms", Spread.of(waits_ms), f"{_DRAINED} at once, one ready")]


async def memory(plan: Plan) -> list[Reading]:
    """Measure the executor's memory with nothing, with 50 idle sandboxes, and with 500 streams."""
    settings = {"HERMES_MAX_SANDBOXES": "64", "HERMES_WARM_POOL_SIZE": "0"}
    async with engine(), executor(plan.folder / "memory", "docker", **settings) as running:
        async with running.sandboxes(1):
            pass
        await asyncio.sleep(_SETTLING_S)
        idle_mb = await running.memory_mb()
        async with running.sandboxes(_IDLE):
            await asyncio.sleep(_SETTLING_S)
            each_mb = (await running.memory_mb() - idle_mb) / _IDLE
        async with running.sandboxes(_SLEEPERS) as acquired:
            sleeping = [Commands(running.channels, one) for one in acquired]
            async with asyncio.TaskGroup() as group:
                streams = [
                    group.create_task(commands.attached())
                    for commands in sleeping
                    for _ in range(_STREAMS // _SLEEPERS)
                ]
                await asyncio.sleep(_SETTLING_S)
                await _until_attached(sleeping)
                streams_mb = await running.memory_mb()
                for stream in streams:
                    stream.cancel()
    return [
        Reading("idle_rss_mb", round(idle_mb, 1)),
        Reading("sandbox_rss_mb", round(each_mb, 2), f"of {_IDLE} idle docker sandboxes"),
        Reading("streams_500_rss_mb", round(streams_mb, 1)),
    ]


async def _until_attached(sleeping: list[Commands]) -> None:
    async with asyncio.timeout(120):
        while sum(one.attached_count for one in sleeping) < _STREAMS:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


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
