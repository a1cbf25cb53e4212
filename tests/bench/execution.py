"""What the executor adds to a command and to a sandbox, beside the bare engine."""

from contextlib import AsyncExitStack

from hermes.executor.v1 import sandbox_pb2
from tests.bench.engine import Engine, engine
from tests.bench.figures import BenchError, Missing, NotReady, Plan, Reading, Spread
from tests.bench.hermes import Hermes, hermes
from tests.bench.sandboxes import Acquired, Commands, acquire, engine_at_rest, release

_WARM_UP = 3
_BLOCK = 10
"""Commands of one side before the other has its turn."""
_MODEL = "http://127.0.0.1:9/v1"
"""Nobody asks it."""


async def docker_commands(plan: Plan) -> list[Reading]:
    """Measure commands in a docker sandbox, and between them those of the bare engine."""
    ours_ms: list[float] = []
    bare_ms: list[float] = []
    async with (
        engine() as bare,
        bare.container() as container,
        hermes(plan.folder / "docker", _MODEL) as running,
    ):
        commands = await _commands(running, "docker")
        await bare.exec_ms(container)
        while len(ours_ms) < plan.samples:
            await engine_at_rest()
            block = range(min(_BLOCK, plan.samples - len(ours_ms)))
            ours_ms += [await commands.run_ms() for _ in block]
            bare_ms += [await bare.exec_ms(container) for _ in block]
    return [
        Reading("exec_docker_ms", Spread.of(ours_ms)),
        Reading("engine_exec_ms", Spread.of(bare_ms)),
    ]


async def bubblewrap_commands(plan: Plan) -> list[Reading]:
    """Measure commands in a bubblewrap sandbox."""
    try:
        async with hermes(plan.folder / "bwrap", _MODEL, HERMES_BACKEND="bubblewrap") as running:
            commands = await _commands(running, "bubblewrap")
            times_ms = [await commands.run_ms() for _ in range(plan.samples)]
    except NotReady as error:
        raise Missing(str(error)) from None
    return [Reading("exec_bubblewrap_ms", Spread.of(times_ms))]


async def _commands(running: Hermes, backend: str) -> Commands:
    acquired = await acquire(running.channels)
    if acquired.backend != backend:
        raise BenchError(f"the sandbox is of {acquired.backend}, not of {backend}")
    commands = Commands(running.channels, acquired)
    for _ in range(_WARM_UP):
        await commands.run_ms()
    return commands


async def acquisitions(plan: Plan) -> list[Reading]:
    """Measure sandboxes that were ready, those that were not, and the bare engine's containers."""
    warm_ms: list[float] = []
    cold_ms: list[float] = []
    bare_ms: list[float] = []
    backends: set[str] = set()
    async with AsyncExitStack() as stack:
        bare: Engine | None = None
        note = ""
        try:
            bare = await stack.enter_async_context(engine())
        except Missing as missing:
            note = str(missing)
        running = await stack.enter_async_context(hermes(plan.folder / "acquire", _MODEL))
        while len(warm_ms) < plan.samples:
            warm, cold = await _pair(running)
            warm_ms.append(warm.took_ms)
            cold_ms.append(cold.took_ms)
            backends |= {warm.backend, cold.backend}
            if bare is not None:
                bare_ms.append(await bare.cold_ms())
    of_what = f"of {', '.join(sorted(backends))}"
    return [
        Reading("acquire_warm_ms", Spread.of(warm_ms), of_what),
        Reading("acquire_cold_ms", Spread.of(cold_ms), of_what),
        Reading("engine_cold_ms", Spread.of(bare_ms) if bare_ms else None, note),
    ]


async def _pair(running: Hermes) -> tuple[Acquired, Acquired]:
    """Acquire the one sandbox that is ready, and at once another; end both."""
    await running.started.until_warm()
    warm = await acquire(running.channels)
    cold = await acquire(running.channels)
    _check(warm, sandbox_pb2.LAUNCH_KIND_WARM)
    _check(cold, sandbox_pb2.LAUNCH_KIND_COLD)
    await release(running.channels, warm)
    await release(running.channels, cold)
    await running.started.until_warm()
    return warm, cold


def _check(acquired: Acquired, launch: "sandbox_pb2.LaunchKind.ValueType") -> None:
    if acquired.launch != launch:
        raise BenchError(f"a sandbox was {sandbox_pb2.LaunchKind.Name(acquired.launch)}")
