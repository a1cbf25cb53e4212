"""The executor's core over boxes without walls, with a clock that tests move."""

import resource
import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from executor_service.backends.folder_store import LocalStore, run_here
from executor_service.execs.command import Command
from executor_service.execs.exec_registry import ExecRegistry, Recorder, Stores
from executor_service.execs.segments import SpoolLimits
from executor_service.execs.spool import Spool
from executor_service.journal import Journal
from executor_service.link.messages import StartCommand
from executor_service.metrics import ExecutorMetrics
from executor_service.network.gate import Gate
from executor_service.network.network import Networks
from executor_service.records.sandboxes import AcquireRequest, Isolation, Lifetimes
from executor_service.sandboxes.leases import Grant, Leases
from executor_service.sandboxes.orphan_reaper import OrphanReaper
from executor_service.sandboxes.pool import Pool, PoolOptions
from executor_service.sandboxes.templates import Choice, Template, Templates
from executor_service.sandboxes.workspace_stores import WorkspaceAllocator, WorkspaceStores
from executor_service.workspaces.catalog import Catalog
from executor_service.workspaces.folders import WorkdirPolicy, Workspaces
from services.lifecycle import Workers
from services.rpc.public_addresses import Address, AddressVetting
from services.telemetry.metrics import Meter
from tests.fakes.clock import ManualClock
from tests.fakes.plain_backend import NAME, PlainBackend

OPTIONS = PoolOptions(owner="test", backend=NAME, box_secret="secret of {}".format, warm=0, most=4)
LIFETIMES = Lifetimes(idle_s=60, total_s=3600)
SPOOL = SpoolLimits(64 * 1024, first_segments=2, segments=6, total_bytes=4 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class Core:
    """What an executor consists of, without its servers."""

    backend: PlainBackend
    journal: Journal
    spool: Spool
    stores: Stores
    pool: Pool
    reaper: OrphanReaper
    leases: Leases
    catalog: Catalog
    templates: Templates
    workers: Workers
    clock: ManualClock
    registry: CollectorRegistry
    metrics: ExecutorMetrics
    folder: Path

    async def acquire(self, session_id: str = "", **changes: object) -> Grant:
        """A sandbox, of a new session unless one is named."""
        return await self.leases.acquire(acquire_request(session_id, **changes))

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def boxes(self, state: str) -> float:
        """How many boxes Prometheus is told of."""
        return self.metric("hermes_sandbox_pool", backend=NAME, template="default", state=state)


def acquire_request(session_id: str = "", **changes: object) -> AcquireRequest:
    """What somebody asks for."""
    usual = AcquireRequest(
        request_id=uuid.uuid4().hex,
        profile="default",
        session_id=session_id or uuid.uuid4().hex,
        template="",
        min_isolation=Isolation.NONE,
        workdir="",
        workspace_id="",
        earlier_workspace_id="",
        lifetimes=Lifetimes(0, 0),
        wait_s=5,
    )
    return replace(usual, **changes)  # pyright: ignore[reportArgumentType]


async def start(grant: Grant, *argv: str, exec_id: str = "") -> Command:
    """Starts a command in a sandbox."""
    exec_id = exec_id or uuid.uuid4().hex
    return await grant.sandbox.get_connection().start(StartCommand(exec_id, argv))


@contextmanager
def full_disk() -> Generator[None]:
    """No file of this process can grow beyond a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def no_names(_host: str) -> Sequence[Address]:
    """A resolver for those who have no network."""
    return ()


@asynccontextmanager
async def open_core(
    folder: Path,
    options: PoolOptions = OPTIONS,
    spool_limits: SpoolLimits = SPOOL,
    open_journal: Callable[[Path], Journal] = Journal,
) -> AsyncGenerator[Core]:
    """A core that runs; at the end none of its boxes is left."""
    registry, clock, backend = CollectorRegistry(), ManualClock(), PlainBackend(folder)
    async with AsyncExitStack() as stack:
        journal = await stack.enter_async_context(open_journal(folder / "journal.db"))
        spool = await stack.enter_async_context(Spool(folder / "spool", spool_limits))
        workers = await stack.enter_async_context(Workers())
        recorder, metrics = Recorder(journal), ExecutorMetrics.create(Meter(registry))
        stores = Stores(journal, spool, recorder, clock, metrics)
        make_registry = partial(ExecRegistry, backend=NAME, stores=stores)
        workspaces = Workspaces(folder / "workspaces", WorkdirPolicy(False, folder, folder))
        pool = Pool(backend, options, workspaces, make_registry, workers, metrics)
        catalog = Catalog(journal, folder / "workspaces", 0)
        reaper = OrphanReaper(
            backend, workspaces, catalog, lambda _box: True, pool.boxes.keys, metrics
        )
        choice = Choice(backend, await backend.probe(), "for tests")
        networks = Networks(Gate(AddressVetting(), no_names), metrics.egress, workers)
        template = Template(options.template, choice, options.limits, pool, reaper, networks)

        async def only(_name: str) -> Template:
            return template

        templates = Templates([], only)
        await templates.open()
        here = LocalStore(folder, run_here(folder, folder, b""))
        workspace_stores = WorkspaceStores(templates, here, workspaces)
        allocator = WorkspaceAllocator(catalog, workspace_stores, workspaces, clock)
        leases = Leases(templates, journal, allocator, LIFETIMES, clock, workers, metrics)
        for name, job in (("spool", spool), ("recorder", recorder), ("pool", pool)):
            workers.start(name, job.run())
        workers.start("leases", leases.run())
        yield Core(
            *(backend, journal, spool, stores, pool, reaper, leases, catalog, templates),
            *(workers, clock, registry, metrics, folder),
        )
        await pool.drain()
        for box in await backend.list_boxes():
            await backend.destroy(box)
