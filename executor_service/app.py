"""The executor's composition root."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

import grpc.aio
from msgspec import Struct

from executor_service.backends.folder_store import LocalStore, run_here
from executor_service.config import ExecutorConfig
from executor_service.execs.exec_registry import Recorder, Stores
from executor_service.execs.segments import SpoolLimits
from executor_service.execs.spool import Spool
from executor_service.journal import Journal
from executor_service.metrics import ExecutorMetrics
from executor_service.network.gate import Gate, Resolver
from executor_service.records.sandboxes import Lifetimes
from executor_service.sandboxes.adoption import Adoption
from executor_service.sandboxes.leases import Leases
from executor_service.sandboxes.opener import TemplateMaker, TemplateResources
from executor_service.sandboxes.retention import Retention, WorkspaceCollector
from executor_service.sandboxes.templates import Templates
from executor_service.sandboxes.workspace_manager import WorkspaceManager
from executor_service.sandboxes.workspace_monitor import WorkspaceMonitor
from executor_service.sandboxes.workspace_stores import WorkspaceAllocator, WorkspaceStores
from executor_service.servicer.execs import ExecServicer
from executor_service.servicer.files import FileServicer
from executor_service.servicer.policy import POLICY
from executor_service.servicer.pools import PoolServicer
from executor_service.servicer.sandboxes import SandboxServicer
from executor_service.servicer.workspaces import WorkspaceServicer
from executor_service.workspaces.catalog import Catalog
from executor_service.workspaces.folders import WorkdirPolicy, Workspaces
from services.clock import SystemClock
from services.config.settings import Settings
from services.home.paths import HomePaths
from services.lifecycle import Workers
from services.rpc import deadlines
from services.rpc.channels import Channels
from services.rpc.public_addresses import AddressVetting, ranges
from services.runtime.component import add_servicers
from services.telemetry.metrics import Meter


def build(
    settings: Settings,
    channels: Channels,  # noqa: ARG001 - services are built alike, and this one calls no other
    meter: Meter,
) -> "ExecutorService":
    """Puts the executor together; opens nothing yet."""
    config = settings.load(ExecutorConfig)
    return ExecutorService(config, settings.home, ExecutorMetrics.create(meter))


class _Parts(Struct, frozen=True):
    """The service's parts, made when it is entered."""

    templates: Templates
    leases: Leases
    collector: WorkspaceCollector
    servicers: Sequence[object]
    jobs: Sequence[Callable[[], Coroutine[Any, Any, None]]]


class ExecutorService:
    """The executor as a component."""

    name = "executor"
    policy = POLICY

    def __init__(
        self,
        config: ExecutorConfig,
        home: HomePaths,
        metrics: ExecutorMetrics,
        gate: Gate | None = None,
    ) -> None:
        """Tests pass a `gate` that leads to fake hosts."""
        self._config = config
        self._gate = gate
        self._home = home
        self._metrics = metrics
        self._clock = SystemClock()
        self._opened = AsyncExitStack()
        self._entered: _Parts | None = None

    @property
    def templates(self) -> Templates:
        """The sandbox templates; available once the service is entered."""
        return self._parts.templates

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._entered = await self._open(stack)
            self._opened = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    def register(self, server: grpc.aio.Server) -> None:
        add_servicers(server, *self._parts.servicers)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for job in self._parts.jobs:
                group.create_task(job())

    async def drain(self) -> None:
        """Stops handing out sandboxes. Those that run commands outlive this process."""
        parts = self._parts
        await parts.templates.close_pools()
        # One that fails must not stop the others.
        async with Workers() as workers:
            for template in parts.templates:
                workers.start(f"end of ready boxes of {template.name}", template.pool.drain())
                workers.start(f"end of orphans of {template.name}", template.reaper.sweep())
            if not self._config.keep_on_exit:
                workers.start("end of idle sandboxes", parts.leases.release_idle())
            await workers.drain(deadlines.DRAIN_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(deadlines.DRAIN_S):
                await parts.collector.remove_stale()

    @property
    def _parts(self) -> _Parts:
        if self._entered is None:
            raise RuntimeError("the executor is not entered")
        return self._entered

    async def _open(self, stack: AsyncExitStack) -> _Parts:
        config, metrics, clock = self._config, self._metrics, self._clock
        folder = self._home.state / "executor"
        journal = await stack.enter_async_context(Journal(folder / "journal.db"))
        limits = SpoolLimits(total_bytes=config.spool_bytes)
        spool = await stack.enter_async_context(Spool(folder / "spool", limits))
        # Backends close last, after everything that uses them has ended.
        backends = await stack.enter_async_context(AsyncExitStack())
        gate = self._gate or await _gate(config)
        workers = await stack.enter_async_context(Workers())
        recorder = Recorder(journal)
        stores = Stores(journal, spool, recorder, clock, metrics)
        workdirs = WorkdirPolicy(config.allow_workdir, self._home.root, Path.home())
        workspaces = Workspaces(self._home.workspaces, workdirs, shared=config.workspaces.shared)
        catalog = Catalog(journal, self._home.workspaces, config.workspaces.total_bytes)
        await catalog.load()
        resources = TemplateResources(
            journal.owner, folder, workspaces, catalog, stores, gate, workers
        )
        maker = TemplateMaker(config, resources)
        templates = Templates(maker.names, maker.open)
        backends.push_async_callback(templates.close)
        run = run_here(folder, self._home.workspaces, await maker.supervisor())
        here = LocalStore(self._home.workspaces, run)
        workspace_stores = WorkspaceStores(templates, here, workspaces)
        allocator = WorkspaceAllocator(catalog, workspace_stores, workspaces, clock)
        lifetimes = Lifetimes(config.idle_timeout_s, config.max_age_s)
        leases = Leases(templates, journal, allocator, lifetimes, clock, workers, metrics)
        adoption = Adoption(
            *(templates, journal, spool, leases, maker.make_registry),
            *(config.orphan_timeout_s, workers, clock),
        )
        await adoption.begin()
        await templates.open(adoption.settle)
        await workspaces.sweep({catalog.path(one.workspace_id) for one in catalog})
        retention = Retention(journal, spool, leases, clock, metrics)
        monitor = WorkspaceMonitor(leases, workspaces, templates, workspace_stores)
        manager = WorkspaceManager(catalog, leases, workspace_stores, workers, clock, metrics)
        await manager.recover()
        days = config.workspaces.retention_days
        collector = WorkspaceCollector(catalog, manager, clock, days, metrics)
        kept = (spool, recorder, templates, leases, retention, monitor, collector)
        jobs = [one.run for one in kept]
        servicers = (
            SandboxServicer(leases, templates, manager, config.endpoint, clock, metrics),
            ExecServicer(leases),
            FileServicer(leases, monitor),
            PoolServicer(templates, leases),
            WorkspaceServicer(catalog, manager, templates),
        )
        return _Parts(templates, leases, collector, servicers, jobs)


async def _gate(config: ExecutorConfig) -> Gate:
    """The gate to the network, with this machine's resolver and the refused addresses."""
    trust = await asyncio.to_thread(ssl.create_default_context) if config.secrets else None
    return Gate(AddressVetting(refused=ranges(config.network.refused)), Resolver(), trust=trust)
