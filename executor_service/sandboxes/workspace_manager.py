"""Creates, copies and removes workspaces on request, never while they are in use.

Each step is recorded first: a copy is MAKING until it is complete, and a workspace is REMOVING
until it is gone. After a crash the next executor finishes both.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from executor_service.backends.base import WorkspaceStore
from executor_service.errors import BackendError, WorkspaceInUse
from executor_service.metrics import ExecutorMetrics
from executor_service.sandboxes.leases import Leases
from executor_service.sandboxes.templates import Template
from executor_service.sandboxes.workspace_stores import WorkspaceStores
from executor_service.workspaces.catalog import (
    Catalog,
    RemovalReason,
    Workspace,
    WorkspaceKind,
    WorkspaceState,
)
from services.clock import Clock
from services.errors import AlreadyExists, FailedPrecondition, HermesError, Unavailable
from services.ids import new_id
from services.lifecycle import Workers, unbroken

_AT_ONCE = 2
"""Copies and removals at a time; each keeps a disk busy."""
_PREFIXES = {WorkspaceKind.WORKSPACE: "wsp", WorkspaceKind.SNAPSHOT: "snp"}

_log = logging.getLogger(__name__)


class Order(Struct, frozen=True):
    """A request for a workspace or a snapshot."""

    profile: str
    request_id: str
    """A repeated request gets the same workspace."""
    name: str
    kind: WorkspaceKind = WorkspaceKind.WORKSPACE


class WorkspaceManager:
    """Creates, copies and removes workspaces."""

    def __init__(
        self,
        catalog: Catalog,
        leases: Leases,
        stores: WorkspaceStores,
        workers: Workers,
        clock: Clock,
        metrics: ExecutorMetrics,
    ) -> None:
        self.stores = stores
        self._catalog = catalog
        self._leases = leases
        self._workers = workers
        self._clock = clock
        self._metrics = metrics
        self._ordering = asyncio.Lock()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._copying: dict[str, asyncio.Task[Workspace | HermesError]] = {}
        self._removing: dict[str, asyncio.Task[WorkspaceInUse | None]] = {}

    async def create(self, order: Order, template: Template) -> Workspace:
        """Returns a new, empty workspace for a template, or the one that this request made."""
        place = self.stores.place_for(template)
        if not place:
            raise FailedPrecondition(
                f"template {template.name} keeps no workspaces: each ends with its sandbox"
            )
        async with self._ordering:
            if known := self._known(order, ""):
                return known
            made = _new(order, template.name, template.capabilities.name, place, self._now())
            self._catalog.check_room(order.profile)
            await self._catalog.put(made)
        return made

    async def copy(self, order: Order, source: Workspace) -> Workspace:
        """Returns a copy of a workspace or snapshot.

        The copy is completed even if the caller leaves; a repeated call gets it. Fails with
        FailedPrecondition, LimitExceeded, BackendUnavailable or Unavailable.
        """
        async with self._ordering:
            target = self._known(order, source.workspace_id)
            if target is None:
                target = await self._begin_copy(order, source)
            elif target.state is WorkspaceState.READY:
                return target
            copying = self._copying.get(target.workspace_id)
        if copying is None:
            raise Unavailable("the previous copy is being removed; try again in a moment")
        await asyncio.wait({copying})
        made = copying.result()
        if isinstance(made, HermesError):
            raise made
        return made

    async def _begin_copy(self, order: Order, source: Workspace) -> Workspace:
        source = await self._catalog.wait_open(source.workspace_id)
        if source.state is not WorkspaceState.READY:
            raise FailedPrecondition(
                f"{source.workspace_id} is not complete yet, or is being removed"
            )
        with ExitStack() as holding:
            holding.enter_context(self._catalog.hold(source.workspace_id))
            store = self.stores.store_at(source.place, source.backend)
            self._catalog.check_room(order.profile)
            target = _new(order, source.template, source.backend, source.place, self._now())
            target = replace(target, state=WorkspaceState.MAKING, source_id=source.workspace_id)
            await self._catalog.put(target)
            work = self._copy(source, target, store, holding.pop_all())
            task = self._workers.start(f"copy {target.workspace_id}", work)
            self._copying[target.workspace_id] = task
            task.add_done_callback(lambda _: self._copying.pop(target.workspace_id, None))
        return target

    async def _copy(
        self, source: Workspace, target: Workspace, store: WorkspaceStore, holding: ExitStack
    ) -> Workspace | HermesError:
        """Copies what `holding` protects; returns the copy, or why there is none."""
        path, most_bytes = self._catalog.path, self.stores.most_bytes(source.template)
        try:
            with holding:
                async with self._slots:
                    size = await store.copy(
                        path(source.workspace_id), path(target.workspace_id), most_bytes
                    )
            now = self._now()
            await self._catalog.change(source.workspace_id, used_at=now)
            whole = replace(
                target, state=WorkspaceState.READY, size_bytes=size, used_at=now, measured_at=now
            )
            await self._catalog.put(whole)
        except BaseException as error:
            await unbroken(self._clear(target.mark_removing(RemovalReason.UNFINISHED)))
            if isinstance(error, HermesError):
                return error
            if isinstance(error, BackendError):
                return Unavailable(f"the workspace was not copied: {error}")
            raise
        return whole

    def _known(self, order: Order, source_id: str) -> Workspace | None:
        asked = (order.profile, order.request_id)
        known = next((one for one in self._catalog if (one.profile, one.request_id) == asked), None)
        if known is None:
            return None
        if (known.kind, known.source_id) != (order.kind, source_id):
            raise AlreadyExists(f"request {order.request_id} was used for a different workspace")
        if known.state is WorkspaceState.REMOVING:
            raise FailedPrecondition(
                f"{known.workspace_id}, which this request made, is being removed"
            )
        return known

    async def remove(self, ident: str, reason: RemovalReason) -> None:
        """Removes an unused workspace or snapshot and waits until it is gone.

        Fails with FailedPrecondition while it is in use or copied, BackendUnavailable if its store
        cannot be reached, or Unavailable if the removal is retried later.
        """
        workspace = await self._catalog.wait_open(ident)
        if workspace.state is WorkspaceState.MAKING:
            raise FailedPrecondition(
                f"{ident} is still being copied; try again when it is complete"
            )
        if workspace.state is WorkspaceState.READY:
            # Fails before the workspace is marked if its store cannot be reached.
            self.stores.store_at(workspace.place, workspace.backend)
            _check_unused(ident, self.list_users(ident), self._catalog.is_busy(ident))
            workspace = workspace.mark_removing(reason)
            with self._catalog.close(ident):
                await self._catalog.put(workspace)
        await self.finish(workspace)

    async def recover(self) -> None:
        """Schedules what the previous run left unfinished or unmeasured."""
        for workspace in self._catalog:
            if workspace.state is WorkspaceState.MAKING:
                await self._catalog.put(workspace.mark_removing(RemovalReason.UNFINISHED))
            elif workspace.is_unmeasured:
                self._catalog.mark_unchecked(workspace.workspace_id)

    async def finish(self, workspace: Workspace) -> None:
        """Completes a removal, once for all callers; WorkspaceInUse if another executor uses it."""
        ident = workspace.workspace_id
        if ident not in self._removing:
            task = self._workers.start(f"remove {ident}", self._clear(workspace))
            self._removing[ident] = task
            task.add_done_callback(lambda _: self._removing.pop(ident, None))
        if refused := await asyncio.shield(self._removing[ident]):
            raise refused
        if self._catalog.get(ident):
            raise Unavailable(f"{ident} cannot be removed now; Hermes tries again later")

    async def _clear(self, workspace: Workspace) -> WorkspaceInUse | None:
        """Removes a workspace from its store and the catalog; on an error it stays REMOVING."""
        ident = workspace.workspace_id
        try:
            store = self.stores.store_at(workspace.place, workspace.backend)
            async with self._slots:
                await store.remove(self._catalog.path(ident))
            await self._catalog.forget(ident)
        except WorkspaceInUse as error:
            await self._catalog.put(workspace.mark_kept())
            return error
        except (BackendError, HermesError) as error:
            _log.warning("workspace %s cannot be removed yet: %s", ident, error)
            await self._catalog.put(workspace)
            return None
        self._metrics.workspaces_removed.labels(workspace.reason).inc()
        _log.info("workspace %s is removed: %s", ident, workspace.reason)
        return None

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def list_users(self, workspace_id: str) -> list[str]:
        path = self._catalog.path(workspace_id)
        return sorted(
            sandbox.claim.session_id
            for sandbox in self._leases
            if Path(sandbox.claim.workspace) == path
        )

    def select_unused(self, workspaces: Iterable[Workspace]) -> list[Workspace]:
        return [
            one
            for one in workspaces
            if not (self._catalog.is_busy(one.workspace_id) or self.list_users(one.workspace_id))
        ]


def _check_unused(ident: str, sessions: Sequence[str], is_busy: bool) -> None:
    if sessions:
        raise FailedPrecondition(
            f"{ident} is in use by session {', '.join(sessions)}: release its sandbox first, "
            "or wait until it ends"
        )
    if is_busy:
        raise FailedPrecondition(f"{ident} is in use: it is being copied or claimed; try again")


def _new(order: Order, template: str, backend: str, place: str, now: float) -> Workspace:
    return Workspace(
        workspace_id=new_id(_PREFIXES[order.kind]),
        kind=order.kind,
        profile=order.profile,
        place=place,
        template=template,
        backend=backend,
        created_at=now,
        used_at=now,
        name=order.name,
        request_id=order.request_id,
    )
