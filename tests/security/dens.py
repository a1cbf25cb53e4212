"""An executor in a process of its own to be attacked, and how its other callers fare meanwhile."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from hermes.executor.v1 import sandbox_pb2
from tests.support.executor_client import Client
from tests.support.executors import Process, end_boxes, executor_settings, until

MIB = 1024 * 1024
HELD = {
    "memory_bytes": 256 * MIB,
    "cpu_count": 1,
    "pids": 64,
    "tmp_bytes": 16 * MIB,
    "workspace_bytes": 4 * MIB,
}
"""Limits that an attack runs into soon."""
SAMPLES_A_ROUND = 10
_SLACK_S = 0.02
"""What a neighbour may be slower on top: by so much some command is late by chance."""

Lease = sandbox_pb2.Lease


@dataclass(frozen=True, slots=True)
class Den:
    """A running executor and an agent of it."""

    process: Process
    client: Client
    backend: str

    async def lease(self) -> Lease:
        """A new sandbox."""
        return (await self.client.acquire()).lease

    async def until_it_says(self, lease: Lease, exec_id: str, said: bytes) -> bytes:
        """Waits until a command has written something; all that it has written by then."""
        found = b""

        async def has_said() -> bool:
            nonlocal found
            found = (await self.client.read(lease, exec_id, 0, 1 << 20)).data
            return said in found

        await until(has_said, timeout_s=30)
        return found

    async def latency_s(self, lease: Lease) -> float:
        """How long a command that does nothing takes."""
        started = time.monotonic()
        assert (await self.client.run_at_once(lease, "true")).code == 0
        return time.monotonic() - started


@asynccontextmanager
async def den(
    home: Path, backend: str, limits: dict[str, int], **environ: str
) -> AsyncGenerator[Den]:
    """An executor whose sandboxes have these limits; no box is left at the end."""
    lines = ["executor:", *(f"  {name}: {value}" for name, value in limits.items())]
    await asyncio.to_thread((home / "config.yaml").write_text, "\n".join(lines) + "\n")
    settings = executor_settings(home, backend, **environ)
    try:
        async with Process(settings) as process, process.client() as client:
            yield Den(process, client, backend)
            await process.stop()
    finally:
        await end_boxes(settings)


@dataclass(frozen=True, slots=True)
class Fare:
    """The 95th percentile of what a neighbour waits, in seconds."""

    quiet_s: float
    loud_s: float

    @property
    def is_fair(self) -> bool:
        """Whether a neighbour waits less than twice as long because of the attack."""
        return self.loud_s < 2 * self.quiet_s + _SLACK_S

    def __str__(self) -> str:
        return f"a neighbour's p95 {1000 * self.quiet_s:.0f} → {1000 * self.loud_s:.0f} ms"


async def fare(
    sample: Callable[[], Awaitable[float]], attack: Callable[[bool], Awaitable[object]], rounds: int
) -> Fare:
    """Measure in turn while an attack rests and while it goes on, so that both see one machine."""
    seen: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for is_loud in seen:
            await attack(is_loud)
            seen[is_loud] += [await sample() for _ in range(SAMPLES_A_ROUND)]
    return Fare(p95(seen[False]), p95(seen[True]))


def p95(values: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1]
