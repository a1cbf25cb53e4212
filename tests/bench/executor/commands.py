"""Commands in sandboxes of each backend."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests import apptainer
from tests.bench.executor.process import Executor, executor
from tests.bench.figures import BenchError, Missing, Plan, Reading, Spread
from tests.bench.sandboxes import Acquired, Commands, engine_at_rest
from tests.kubernetes_cluster import cluster
from tests.requirements import Skipped
from tests.ssh_server import ssh_server

_WARM_UP = 5


async def docker(plan: Plan) -> list[Reading]:
    """Measure commands in a docker sandbox."""
    return [await _alone(plan, "docker", {})]


async def bubblewrap(plan: Plan) -> list[Reading]:
    """Measure commands in a bubblewrap sandbox."""
    return [await _alone(plan, "bubblewrap", {})]


async def ssh(plan: Plan) -> list[Reading]:
    """Measure commands of another account, through a real SSH server on this machine."""
    with ExitStack() as stack:
        try:
            server = await asyncio.to_thread(stack.enter_context, ssh_server())
        except Skipped as skipped:
            raise Missing(str(skipped)) from None
        settings = server.environ
        try:
            return [await _alone(plan, "ssh", settings)]
        finally:
            await asyncio.to_thread(stack.close)


async def singularity(plan: Plan) -> list[Reading]:
    """Measure commands in a sandbox of Apptainer."""
    options = apptainer.options()
    settings = {
        "HERMES_SINGULARITY_IMAGE": options.image,
        "HERMES_SINGULARITY_PROGRAM": options.program,
    }
    # The Apptainer of the tests has a file system of its own, in which only /tmp is this machine's.
    with tempfile.TemporaryDirectory(prefix="hermes-bench-", dir="/tmp") as folder:
        return [await _alone(replace(plan, folder=Path(folder)), "singularity", settings)]


async def kubernetes(plan: Plan) -> list[Reading]:
    """Measure commands in a pod of the stand-in cluster."""
    with ExitStack() as stack:
        try:
            made = await asyncio.to_thread(stack.enter_context, cluster(plan.folder / "cluster"))
        except Skipped as skipped:
            raise Missing(str(skipped)) from None
        settings = {"HERMES_KUBERNETES_KUBECONFIG": str(made.kubeconfig)}
        try:
            return [await _alone(plan, "kubernetes", settings)]
        finally:
            await asyncio.to_thread(stack.close)


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
