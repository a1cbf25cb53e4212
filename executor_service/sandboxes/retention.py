"""Removes unused commands, output and workspaces.

Commands and sandboxes are forgotten a day after their end, their output earlier if the disk is
full. Workspaces are measured when their sandboxes end, and removed when empty or unused too long.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from executor_service.backends.base import WorkspaceStore
from executor_service.errors import BackendError
from executor_service.execs.exec_registry import ExecRegistry
from executor_service.execs.spool import Spool
from executor_service.journal import Journal
from executor_service.metrics import ExecutorMetrics
from executor_service.records.sandboxes import CommandRecord
from executor_service.sandboxes.leases import Leases
from executor_service.sandboxes.workspace_manager import WorkspaceManager
from executor_service.sandboxes.workspace_stores import ANY_BYTES
from executor_service.workspaces.catalog import Catalog, RemovalReason, Workspace, WorkspaceState
from services.clock import Clock
from services.errors import DatabaseUnavailable, HermesError

KEPT_S = 24 * 3600.0
"""How long commands and sandboxes can be queried after their end."""
_INTERVAL_S = 600.0
_RETRY_S = 5.0

_log = logging.getLogger(__name__)


class Retention:
    """Forgets old commands and sandboxes, and removes output above the limit."""

    def __init__(
        self, journal: Journal, spool: Spool, leases: Leases, clock: Clock, metrics: ExecutorMetrics
    ) -> None:
        self._journal = journal
        self._spool = spool
        self._leases = leases
        self._clock = clock
        metrics.spool_bytes.set_function(lambda: spool.stored_bytes)

    async def run(self) -> None:
        """Removes what is due every ten minutes, until cancelled."""
        while True:
            try:
                await self.forget_old()
                await self.make_room()
            except DatabaseUnavailable as error:
                _log.warning("old commands cannot be removed now: %s", error)
                await asyncio.sleep(_RETRY_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_S):
                    await self._spool.over_budget.wait()

    async def forget_old(self) -> None:
        before = self._clock.now().timestamp() - KEPT_S
        for registry, record in self._finished():
            if (record.ended_at or 0) < before:
                await registry.forget(record)
        for sandbox in self._leases.remembered:
            ended_at = sandbox.claim.ended_at
            if ended_at is not None and ended_at < before:
                self._leases.forget(sandbox)
                await self._spool.remove_sandbox(sandbox.claim.sandbox_id)
                await self._journal.forget_sandbox(sandbox.claim.sandbox_id)

    async def make_room(self) -> None:
        """Removes output above the limit, that of ended commands first and oldest first."""
        for registry, record in self._finished():
            if record.stored_bytes and self._spool.over_budget.is_set():
                await registry.forget_output(record)
        while self._spool.over_budget.is_set() and self._shrink_largest():
            pass
        if self._spool.over_budget.is_set():
            _log.warning("the output of running commands exceeds executor.spool_bytes")
            await asyncio.sleep(_RETRY_S)

    def _finished(self) -> list[tuple[ExecRegistry, CommandRecord]]:
        registries = [sandbox.registry for sandbox in self._leases.remembered]
        found = [
            (registry, record)
            for registry in registries
            for record in registry.ended_records.values()
        ]
        return sorted(found, key=lambda one: one[1].ended_at or 0)

    def _shrink_largest(self) -> bool:
        running = (command for sandbox in self._leases for command in sandbox.running)
        largest = max(running, key=lambda command: command.spool.stored_bytes, default=None)
        return largest is not None and largest.spool.shrink()


_GATHER_S = 2.0
"""How long to wait for more workspaces: checking many costs as much as checking one."""
_AT_ONCE = 100
_DAY_S = 24 * 3600.0


class WorkspaceCollector(Struct, frozen=True):
    """Measures and removes workspaces, when their sandboxes end and every ten minutes."""

    catalog: Catalog
    manager: WorkspaceManager
    clock: Clock
    retention_days: float
    metrics: ExecutorMetrics

    async def run(self) -> None:
        while True:
            try:
                await self.collect()
            except DatabaseUnavailable as error:
                _log.warning("workspaces cannot be collected now: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_S):
                    await self.catalog.changed.wait()
            await asyncio.sleep(_GATHER_S)

    async def collect(self) -> None:
        """Removes workspaces that are empty, too old or being removed, and measures the others."""
        self.catalog.changed.clear()
        for workspace in self.catalog:
            if workspace.state is WorkspaceState.REMOVING:
                await self._attempt(self.manager.finish(workspace))
        await self._remove_empty()
        await self.remove_stale()
        await self._measure()
        if self.retention_days:
            await self._remove_old()
        sizes = [one.size_bytes or 0 for one in self.catalog]
        self.metrics.workspaces.set(len(sizes))
        self.metrics.workspace_bytes.set(sum(sizes))

    async def _remove_empty(self) -> None:
        left = sorted(self.catalog.unchecked)
        found = map(self.catalog.get, left)
        self.catalog.unchecked.difference_update(left)
        if self.manager.stores.workspaces.is_shared:
            return
        # A workspace that was created on request stays although it is empty.
        made = [one for one in found if one and not one.request_id]
        by_place: defaultdict[str, list[Workspace]] = defaultdict(list)
        for workspace in self.manager.select_unused(made):
            if workspace.state is WorkspaceState.READY:
                by_place[workspace.place].append(workspace)
        stores = self.manager.stores.by_place()
        for place, workspaces in by_place.items():
            if place in stores:
                await self._attempt(self._remove_empty_of(stores[place], workspaces))

    async def _remove_empty_of(self, store: WorkspaceStore, workspaces: list[Workspace]) -> None:
        # Some may be in use again by now.
        paths = {self._path(one): one for one in self.manager.select_unused(workspaces)}
        with self.catalog.close(*(one.workspace_id for one in paths.values())):
            for path in await store.remove_empty(list(paths)):
                await self.catalog.forget(paths[path].workspace_id)
                self.metrics.workspaces_removed.labels(RemovalReason.EMPTY).inc()

    async def remove_stale(self) -> None:
        """Removes the remote workspaces of boxes that ended unclaimed."""
        stores = self.manager.stores.by_place()
        for place, paths in self.manager.stores.workspaces.take_stale().items():
            if place in stores:
                await self._attempt(stores[place].remove_empty(sorted(paths)))

    async def _measure(self) -> None:
        # By place, so that a failing one does not keep the others from being measured.
        for place, store in self.manager.stores.by_place().items():
            due = [one for one in self.catalog if one.is_unmeasured and one.place == place]
            if due:
                await self._attempt(self._measure_in(store, due[:_AT_ONCE]))

    async def _measure_in(self, store: WorkspaceStore, workspaces: list[Workspace]) -> None:
        now = self.clock.now().timestamp()
        sizes = await store.measure(dict.fromkeys(map(self._path, workspaces), ANY_BYTES))
        for workspace in workspaces:
            size = sizes.get(self._path(workspace))
            seen_bytes = None if size is None else size.seen_bytes
            changes = {"size_bytes": seen_bytes, "measured_at": now}
            await self.catalog.change(workspace.workspace_id, **changes)

    async def _remove_old(self) -> None:
        before = self.clock.now().timestamp() - self.retention_days * _DAY_S
        places = self.manager.stores.by_place().keys()
        for one in self.catalog:
            # Look again: removing the ones before may have taken long.
            workspace = self.catalog.get(one.workspace_id)
            if workspace is None or workspace.used_at >= before or workspace.place not in places:
                continue
            if workspace.state is WorkspaceState.READY and self.manager.select_unused([workspace]):
                _log.info(
                    "workspace %s was not used for longer than executor.workspaces.retention_days",
                    workspace.workspace_id,
                )
                await self._attempt(
                    self.manager.remove(workspace.workspace_id, RemovalReason.RETENTION)
                )

    def _path(self, workspace: Workspace) -> Path:
        return self.catalog.path(workspace.workspace_id)

    async def _attempt(self, work: Awaitable[object]) -> None:
        """Logs an error, so that one workspace does not stop the others."""
        try:
            await work
        except DatabaseUnavailable:
            raise
        except (BackendError, HermesError) as error:
            _log.warning("a workspace is skipped until the next round: %s", error)
