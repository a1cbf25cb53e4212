"""The executor's composition root."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc.aio

from executor_service.adoption import Inheritance, adopt
from executor_service.backends import AUTOMATIC, BACKENDS, Site
from executor_service.backends.base import Capabilities, Enforcement, Limits, WorkspacePlace
from executor_service.choice import Choice, choose
from executor_service.commands import CommandTable, Stores
from executor_service.config import ExecutorConfig
from executor_service.journal import Journal
from executor_service.leases import Leases, Terms
from executor_service.limits import WorkspaceWatch
from executor_service.metrics import ExecutorMetrics
from executor_service.pool import Pool, PoolOptions
from executor_service.recorder import Recorder
from executor_service.records import Lifetimes
from executor_service.retention import Retention
from executor_service.servicer.execs import ExecServicer
from executor_service.servicer.files import FileServicer
from executor_service.servicer.sandboxes import SandboxServicer
from executor_service.servicer.services import POLICY, register
from executor_service.spool import Spool, SpoolLimits
from executor_service.strays import Strays
from executor_service.supervisor_zipapp import build_zipapp
from executor_service.workspaces import WorkdirPolicy, Workspaces
from services import deadlines
from services.channels import Channels
from services.clock import SystemClock
from services.config import Settings
from services.home import HomePaths
from services.lifecycle import Workers
from services.metrics import Meter


def build(
    settings: Settings,
    channels: Channels,  # noqa: ARG001 - services are built alike, and this one calls no other
    meter: Meter,
) -> "ExecutorService":
    """Puts the executor together; nothing is opened yet."""
    config = settings.load(ExecutorConfig)
    return ExecutorService(config, settings.home, ExecutorMetrics.create(meter))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What there is once the service is entered."""

    choice: Choice
    leases: Leases
    pool: Pool
    strays: Strays
    jobs: Sequence[Callable[[], Coroutine[Any, Any, None]]]
    """What runs beside the server."""


class ExecutorService:
    """The executor as a component."""

    name = "executor"
    policy = POLICY

    def __init__(self, config: ExecutorConfig, home: HomePaths, metrics: ExecutorMetrics) -> None:
        self._config = config
        self._home = home
        self._metrics = metrics
        self._clock = SystemClock()
        self._opened = AsyncExitStack()
        self._entered: _Parts | None = None

    @property
    def choice(self) -> Choice:
        """Which backend makes the sandboxes, and why; known once the service is entered."""
        return self._parts.choice

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._entered = await self._open(stack)
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
        """Adds the servicers to the server."""
        parts = self._parts
        sandboxes = SandboxServicer(
            parts.leases, parts.choice, self._config.endpoint, self._clock, self._metrics
        )
        register(server, sandboxes, ExecServicer(parts.leases), FileServicer(parts.leases))

    async def run(self) -> None:
        """Keeps boxes ready, stores what commands write, ends and forgets what is over."""
        async with asyncio.TaskGroup() as group:
            for job in self._parts.jobs:
                group.create_task(job())

    async def drain(self) -> None:
        """Claims no more; sandboxes in which something runs go on without this process."""
        parts = self._parts
        await parts.pool.close()
        # One that fails takes nothing from the others.
        async with Workers() as workers:
            workers.start("end of ready boxes", parts.pool.drain())
            workers.start("end of strays", parts.strays.sweep())
            if not self._config.keep_on_exit:
                workers.start("end of idle sandboxes", parts.leases.release_idle())
            await workers.drain(deadlines.DRAIN_S)

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
        choice = await self._choose(journal.owner, folder)
        stack.push_async_callback(choice.backend.close)
        workers = await stack.enter_async_context(Workers())
        recorder = Recorder(journal)
        stores = Stores(journal, spool, recorder, clock, metrics)
        make_table = partial(CommandTable, backend=choice.capabilities.name, stores=stores)
        workdirs = WorkdirPolicy(
            config.allow_workdir, choice.capabilities.workspaces, self._home.root, Path.home()
        )
        workspaces = Workspaces(self._home.workspaces, workdirs)
        options = _pool_options(config, journal.owner, choice.capabilities)
        pool = Pool(choice.backend, options, workspaces, make_table, workers, metrics)
        strays = Strays(choice.backend, workspaces, pool.keys, metrics)
        lifetimes = Lifetimes(config.idle_timeout_s, config.max_age_s)
        terms = Terms(choice.capabilities.name, choice.capabilities.isolation, lifetimes)
        leases = Leases(pool, journal, workspaces, terms, clock, workers, metrics)
        inheritance = Inheritance(
            choice.backend, journal, spool, workspaces, pool, strays, leases, make_table, clock
        )
        await adopt(inheritance, workers)
        retention = Retention(journal, spool, leases, clock, metrics)
        jobs = [spool.run, recorder.run, pool.run, strays.run, leases.run, retention.run]
        if choice.capabilities.limits.workspace is Enforcement.WATCHED:
            jobs.append(WorkspaceWatch(leases, workspaces, config.box.workspace_bytes).run)
        return _Parts(choice, leases, pool, strays, jobs)

    async def _choose(self, owner: str, folder: Path) -> Choice:
        supervisor = await asyncio.to_thread(build_zipapp)
        site = Site(owner, folder, supervisor, self._config)
        backends = {name: partial(make, site) for name, make in BACKENDS.items()}
        choice = await choose(self._config.backend, backends, AUTOMATIC)
        return replace(choice, capabilities=self._with_watch(choice.capabilities))

    @staticmethod
    def _with_watch(found: Capabilities) -> Capabilities:
        """What the sandboxes are held to, where this process looks at their workspaces."""
        held = found.limits.workspace is not Enforcement.NONE
        if held or found.workspaces is not WorkspacePlace.HERE:
            return found
        return replace(found, limits=replace(found.limits, workspace=Enforcement.WATCHED))


def _pool_options(config: ExecutorConfig, owner: str, found: Capabilities) -> PoolOptions:
    box = config.box
    return PoolOptions(
        owner=owner,
        backend=found.name,
        limits=Limits(
            memory_bytes=box.memory_bytes,
            cpu_count=box.cpu_count,
            pids=box.pids,
            tmp_bytes=box.tmp_bytes,
            workspace_bytes=box.workspace_bytes,
        ),
        warm=config.warm_pool_size,
        most=config.max_sandboxes,
        prefill=config.prefill,
    )
