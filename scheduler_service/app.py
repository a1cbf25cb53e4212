"""The scheduler service, put together."""

from contextlib import AsyncExitStack
from datetime import timedelta
from types import TracebackType
from typing import Self

import grpc.aio

from scheduler_service.catalog import JobCatalog
from scheduler_service.clients import AgentClient, GatewayClient
from scheduler_service.config import SchedulerConfig
from scheduler_service.metrics import SchedulerMetrics
from scheduler_service.planner import Planner, Timing
from scheduler_service.runner import Runner
from scheduler_service.servicer import POLICY, JobServicer
from scheduler_service.storage import migrations
from scheduler_service.storage.claims import Holder, run_leases
from scheduler_service.storage.schema import metadata
from services.channels import Channels
from services.clock import SystemClock
from services.config import Settings
from services.config_models import ServiceConfig
from services.database import Database
from services.leases import new_owner
from services.lifecycle import Workers
from services.metrics import Meter
from services.migrations import prepare


def build(settings: Settings, channels: Channels, meter: Meter) -> "SchedulerService":
    """Put the scheduler together; nothing is opened yet."""
    service, config = settings.load(ServiceConfig), settings.load(SchedulerConfig)
    clock, metrics, workers = SystemClock(), SchedulerMetrics.create(meter), Workers()
    database = Database(service.database.url_of("scheduler", settings.home), "scheduler", clock)
    holder = Holder(new_owner(service.instance), run_leases())
    agent = AgentClient(channels)
    runner = Runner(
        database,
        agent,
        GatewayClient(channels),
        leases=holder.leases,
        clock=clock,
        slots=config.max_parallel_runs,
        observer=metrics,
    )
    planner = Planner(
        database,
        runner.run,
        workers,
        holder=holder,
        clock=clock,
        timing=Timing(timedelta(seconds=config.misfire_grace_s)),
        observer=metrics,
    )
    catalog = JobCatalog(database, clock, config.time_zone, agent)
    return SchedulerService(database, workers, planner, JobServicer(catalog))


class SchedulerService:
    """The scheduler as a component: serves jobs, and runs those that are due."""

    name = "scheduler"
    policy = POLICY

    def __init__(
        self, database: Database, workers: Workers, planner: Planner, servicer: JobServicer
    ) -> None:
        self._database = database
        self._workers = workers
        self._planner = planner
        self._servicer = servicer
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._database)
            await prepare(self._database, metadata, migrations)
            await stack.enter_async_context(self._workers)
            self._opened = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._opened.aclose()

    def register(self, server: grpc.aio.Server) -> None:
        """Add JobService to the server."""
        self._servicer.register(server)

    async def run(self) -> None:
        """Run what is due until cancelled."""
        await self._planner.run()

    async def drain(self) -> None:
        """Claim nothing more, and leave the runs under way to others."""
        await self._planner.drain()
