"""What the scheduler's tests put together: the fakes at the wire, and schedulers beside them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import grpc.aio
from prometheus_client import CollectorRegistry

from hermes.agent.v1 import catalog_pb2_grpc, session_pb2_grpc, turn_pb2_grpc, usage_pb2_grpc
from hermes.gateway.v1 import delivery_pb2_grpc, directory_pb2_grpc
from scheduler_service.clients import AgentClient, GatewayClient
from scheduler_service.jobs import Job, JobSpec, Origin, Run, RunState
from scheduler_service.options import JobOptions
from scheduler_service.runs.metrics import SchedulerMetrics
from scheduler_service.runs.planner import Planner, Timing
from scheduler_service.runs.runner import Runner, RunServices
from scheduler_service.runs.stopper import Stopper
from scheduler_service.servicer.catalog import JobCatalog
from scheduler_service.storage.claims import CHANNEL, Holder, run_leases
from services.clock import Clock, SystemClock
from services.database import Database
from services.database.leases import new_owner
from services.ids import new_id
from services.lifecycle import Workers
from services.redaction.redactor import Redactor
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from services.rpc.tls import TlsFiles, server_credentials
from services.telemetry.metrics import Meter
from tests.fakes.catalog import FakeBudgets, FakeCatalog
from tests.fakes.deliveries import FakeDeliveries
from tests.fakes.sandboxes import FakeSandboxes
from tests.fakes.turns import FakeTurns

# A quarter of the real lease: a takeover is the same, only sooner.
LEASE_S = 1.5
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
TIMING = Timing(timedelta(days=1), sleep_s=1.2)
CHAT = Origin(platform="telegram", chat_id="42", thread_id="7", user_id="u1", user_name="Ada")
FINISHED = (RunState.SUCCEEDED, RunState.FAILED)


class SetClock(SystemClock):
    """A clock whose wall time is what the test has set it to, while time passes."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def step(self, seconds: float) -> None:
        """Set the wall time forward or back."""
        self._now += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Wire:
    """The other services, as far as the scheduler sees them."""

    turns: FakeTurns
    deliveries: FakeDeliveries
    catalog: FakeCatalog
    budgets: FakeBudgets
    sandboxes: FakeSandboxes
    address: str


@asynccontextmanager
async def fake_services(tls: TlsFiles | None = None) -> AsyncGenerator[Wire]:
    """Serve an agent and a gateway on a port of their own."""
    server = grpc.aio.server()
    turns, deliveries = FakeTurns(), FakeDeliveries()
    catalog, budgets = cast("Any", FakeCatalog)(), cast("Any", FakeBudgets)()
    sandboxes = FakeSandboxes()  # pyright: ignore[reportAbstractUsage] - it serves one call
    session_pb2_grpc.add_SessionServiceServicer_to_server(sandboxes, server)
    catalog_pb2_grpc.add_CatalogServiceServicer_to_server(catalog, server)
    usage_pb2_grpc.add_UsageServiceServicer_to_server(budgets, server)
    turn_pb2_grpc.add_TurnServiceServicer_to_server(turns, server)
    delivery_pb2_grpc.add_DeliveryServiceServicer_to_server(deliveries, server)
    directory_pb2_grpc.add_DirectoryServiceServicer_to_server(deliveries, server)
    if tls is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        credentials = await asyncio.to_thread(server_credentials, tls)
        port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield Wire(turns, deliveries, catalog, budgets, sandboxes, f"127.0.0.1:{port}")
    finally:
        await server.stop(None)


class SchedulerUnderTest:
    """A scheduler that a test can drain, or let die without letting go of anything."""

    def __init__(self, database: Database, channels: Channels, clock: Clock, slots: int) -> None:
        self.registry = CollectorRegistry()
        metrics = SchedulerMetrics.create(Meter(self.registry))
        self.database = database
        self.clock = clock
        self.workers = Workers()
        holder = Holder(new_owner(new_id("test")), run_leases(LEASE_S))
        agent = AgentClient(channels)
        runner = Runner(
            database,
            RunServices(agent, GatewayClient(channels)),
            leases=holder.leases,
            clock=SystemClock(),
            slots=slots,
            metrics=metrics,
        )
        self.planner = Planner(
            database,
            runner,
            self.workers,
            holder=holder,
            clock=clock,
            timing=TIMING,
            metrics=metrics,
        )
        home = "Europe/Berlin"
        self.catalog = JobCatalog(database, clock, lambda _: home, agent, Redactor())
        self._planning = asyncio.create_task(self.planner.run())
        self._stopping = asyncio.create_task(Stopper(database, agent).run())

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric."""
        return self.registry.get_sample_value(name, labels) or 0.0

    async def counted(self, name: str, value: float, **labels: str) -> None:
        """Return once a metric has a value; it is counted just after what can be seen."""
        async with asyncio.timeout(10):
            while self.metric(name, **labels) != value:  # noqa: ASYNC110 - a metric is no event
                await asyncio.sleep(0.01)

    async def die(self) -> None:
        """Stop as if killed: what is held stays held until its lease ends."""
        self._planning.cancel()
        self._stopping.cancel()
        await asyncio.wait([self._planning, self._stopping])
        await self.workers.__aexit__(None, None, None)

    async def look(self) -> None:
        """Let the planner look at a clock that was moved."""
        await self.database.notify(CHANNEL)

    async def passes(self, seconds: float = 60) -> None:
        """Let time pass on a clock that is set, and the planner look at it."""
        assert isinstance(self.clock, SetClock)
        self.clock.step(seconds)
        await self.look()

    async def create(
        self,
        job_id: str,
        schedule: str,
        prompt: str = "answer hello",
        origin: Origin | None = CHAT,
        time_zone: str = "UTC",
        **options: Any,
    ) -> Job:
        """Create a job of the default profile."""
        asked = JobSpec(
            f"job {job_id}", prompt, schedule, time_zone, origin, options=JobOptions(**options)
        )
        return await self.catalog.create("default", job_id, asked)

    async def claimed(self, job_id: str, count: int = 1) -> list[Run]:
        """Return the job's runs, the latest first, once there are so many."""
        return await self._runs(job_id, lambda runs: len(runs) >= count)

    async def finished(self, job_id: str, count: int = 1) -> list[Run]:
        """Return the job's runs, the latest first, once so many have ended."""
        return await self._runs(
            job_id, lambda runs: sum(run.state in FINISHED for run in runs) >= count
        )

    async def _runs(self, job_id: str, enough: Callable[[list[Run]], bool]) -> list[Run]:
        while not enough(runs := await self.catalog.runs("default", job_id, 1000)):  # noqa: ASYNC110 - rows change without an event
            await asyncio.sleep(0.01)
        return runs


@asynccontextmanager
async def scheduler(
    database: Database, wire: Wire, *, clock: Clock | None = None, slots: int = 32
) -> AsyncGenerator[SchedulerUnderTest]:
    """Run a scheduler on an open database."""
    async with AsyncExitStack() as stack:
        addresses = {"agent": wire.address, "gateway": wire.address}
        channels = Channels(Identity.SCHEDULER, addresses, token="a token")
        await stack.enter_async_context(channels)
        running = SchedulerUnderTest(database, channels, clock or SystemClock(), slots)
        stack.push_async_callback(running.die)
        yield running
