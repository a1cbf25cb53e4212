"""The composition root of the scheduler service."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Self

import grpc.aio

from scheduler_service.batches.runner import ItemRunner
from scheduler_service.batches.worker import BatchWorker
from scheduler_service.clients import AgentClient, CurationClient, GatewayClient
from scheduler_service.clients.batches import BatchAgent
from scheduler_service.config import BatchConfig, CuratorConfig, SchedulerConfig
from scheduler_service.home.importer import HomeImporter, JobKeeper
from scheduler_service.home.mover import JobMover
from scheduler_service.home.profiles import zones_of
from scheduler_service.runs.curator import CuratorRuns, CuratorTimer
from scheduler_service.runs.delivery import OutputFolders
from scheduler_service.runs.metrics import BatchMetrics, CuratorMetrics, SchedulerMetrics
from scheduler_service.runs.planner import Planner, Timing
from scheduler_service.runs.runner import Runner, RunServices
from scheduler_service.runs.stopper import Stopper
from scheduler_service.servicer.batches import BatchServicer
from scheduler_service.servicer.catalog import JobCatalog
from scheduler_service.servicer.curator import CuratorServicer
from scheduler_service.servicer.jobs import POLICY, JobServicer
from scheduler_service.servicer.messages import check_job
from scheduler_service.storage import migrations
from scheduler_service.storage.batch_claims import item_leases
from scheduler_service.storage.claims import Holder, run_leases
from services.clock import SystemClock
from services.config.settings import Settings
from services.database import Database
from services.database.leases import Owner, new_owner
from services.database.migrations import prepare
from services.home.paths import HomePaths
from services.lifecycle import Workers, each_of
from services.rpc.channels import Channels
from services.runtime.component import add_servicers
from services.runtime.config import ServiceConfig
from services.telemetry.metrics import Meter, redactions


def build(settings: Settings, channels: Channels, meter: Meter) -> "SchedulerService":
    """Build the scheduler from its settings, without opening anything."""
    service, config = settings.load(ServiceConfig), settings.load(SchedulerConfig)
    clock, metrics, workers = SystemClock(), SchedulerMetrics.create(meter), Workers()
    config_url = service.database.url_of("scheduler", settings.home)
    redactor = settings.redactor(redactions(meter))
    database = Database(config_url, "scheduler", clock)
    database.measure(meter)
    holder = Holder(new_owner(service.instance), run_leases())
    agent = AgentClient(channels)
    curator = settings.load(CuratorConfig)
    libraries, curated = CurationClient(channels, curator), CuratorMetrics.create(meter)
    gateway = GatewayClient(channels)
    helpers = RunServices(
        agent,
        gateway,
        CuratorRuns(database, libraries, leases=holder.leases, clock=clock, metrics=curated),
        _outputs(settings.home, config_url),
    )
    runner = Runner(
        database,
        helpers,
        leases=holder.leases,
        clock=clock,
        slots=config.max_parallel_runs,
        metrics=metrics,
    )
    planner = Planner(
        *(database, runner, workers),
        holder=holder,
        clock=clock,
        timing=Timing(timedelta(seconds=config.misfire_grace_s)),
        metrics=metrics,
    )
    zone_of_profile = zones_of(settings)
    catalog = JobCatalog(database, clock, zone_of_profile, agent, redactor)
    timer = CuratorTimer(database, libraries, clock=clock, config=curator, metrics=curated)
    mover = JobMover(
        database,
        clock,
        zone_of_profile=zone_of_profile,
        grace=timedelta(seconds=config.misfire_grace_s),
        check=check_job,
        redactor=redactor,
    )
    keeper = JobKeeper(settings.home, config_url)
    importer = HomeImporter(database, mover, clock, settings.home, keeper)
    stopper = Stopper(database, agent)
    servicers = (
        JobServicer(catalog, mover, agent, gateway, keeper),
        CuratorServicer(database, libraries, clock, curator),
        BatchServicer(database, clock),
    )
    pause_s, counted = settings.load(BatchConfig).pause_s, BatchMetrics.create(meter)
    batches = _batches(database, workers, BatchAgent(channels), holder.owner, counted, pause_s)
    parts = (importer, planner, timer, stopper, batches)
    return SchedulerService(database, workers, parts, servicers)


def _outputs(home: HomePaths, database_url: str) -> OutputFolders | None:
    # SQLite means a single scheduler, on the host of the home.
    return OutputFolders(home) if database_url.startswith("sqlite") else None


def _batches(
    database: Database,
    workers: Workers,
    agent: BatchAgent,
    owner: Owner,
    metrics: BatchMetrics,
    pause_s: float,
) -> BatchWorker:
    holder, clock = Holder(owner, item_leases()), SystemClock()
    items = ItemRunner(database, agent, holder.leases, clock, metrics, pause_s)
    return BatchWorker(database, items, workers, holder=holder, clock=clock)


class SchedulerService:
    """The scheduler as a component: runs jobs that are due and batches, and curates skills."""

    name = "scheduler"
    policy = POLICY

    def __init__(
        self,
        database: Database,
        workers: Workers,
        parts: tuple[HomeImporter, Planner, CuratorTimer, Stopper, BatchWorker],
        servicers: tuple[JobServicer, CuratorServicer, BatchServicer],
    ) -> None:
        self._database = database
        self._workers = workers
        self._parts = parts
        self._servicers = servicers
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._database)
            await prepare(self._database, migrations)
            importer, *_ = self._parts
            # Jobs must be imported before the first request for them.
            await importer.take()
            await stack.enter_async_context(self._workers)
            self._opened = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    def register(self, server: grpc.aio.Server) -> None:
        add_servicers(server, *self._servicers)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run())

    async def drain(self) -> None:
        """Claim no more runs, and leave the running ones to other schedulers."""
        _, planner, timer, _, batches = self._parts
        await each_of((planner.drain(), timer.drain(), batches.drain()))
