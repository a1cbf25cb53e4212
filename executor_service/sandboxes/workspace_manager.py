"""Making, copying and removing workspaces, on request and never under somebody's feet.

What is about to be done is written down first: a copy is MAKING until it is whole, and what goes is
GOING until it is gone. An executor that dies in between leaves either to its successor.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from executor_service.backends.base import WorkspaceStore
from executor_service.errors import BackendError, WorkspaceInUse
from executor_service.metrics import ExecutorMetrics
from executor_service.records.sandboxes import SandboxState
from executor_service.sandboxes.leases import Leases
from executor_service.sandboxes.templates import Template
from executor_service.sandboxes.workspace_stores import WorkspaceStores
from executor_service.workspaces.catalog import Catalog
from executor_service.workspaces.workspace import (
    RemovalReason,
    Workspace,
    WorkspaceKind,
    WorkspaceState,
)
from services.clock import Clock
from services.errors import AlreadyExists, FailedPrecondition, HermesError, NotFound, Unavailable
from services.ids import new_id
from services.lifecycle import Workers, unbroken

_AT_ONCE = 2
"""Copies and removals, which keep a disk busy."""
_PREFIXES = {WorkspaceKind.WORKSPACE: "wsp", WorkspaceKind.SNAPSHOT: "snp"}

_log = logging.getLogger(__name__)


class Order(Struct, frozen=True):
    """Who wants a workspace or a snapshot."""

    profile: str
    request_id: str
    """The same one gets the same workspace."""
    name: str
    kind: WorkspaceKind = WorkspaceKind.WORKSPACE


class WorkspaceManager:
    """What is done with workspaces while no sandbox does it."""

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

    # ---- making

    async def create(self, order: Order, template: Template) -> Workspace:
        """Returns a new, empty workspace for sandboxes of a template, or the one that was made for
        this request."""
        place = self.stores.place_for(template)
        if not place:
            raise FailedPrecondition(
                f"sandboxes of template {template.name} keep no workspace: it ends with each"
            )
        async with self._ordering:
            if known := self._known(order, ""):
                return known
            made = _new(order, template.name, template.capabilities.name, place, self._now())
            self._catalog.check_room(order.profile)
            await self._catalog.put(made)
        return made

    async def copy(self, order: Order, source: Workspace) -> Workspace:
        """Returns a workspace or snapshot with all that another one has.

        It is made to its end when the caller leaves; who calls again gets the same. Fails with
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
            raise Unavailable(
                "the copy that was begun is being cleared away; try again in a moment"
            )
        await asyncio.wait({copying})
        if copying.cancelled():
            raise FailedPrecondition("the copy was given up before it was whole")
        made = copying.result()
        if isinstance(made, HermesError):
            raise made
        return made

    async def _begin_copy(self, order: Order, source: Workspace) -> Workspace:
        source = await self._catalog.wait_open(source.workspace_id)
        if source.state is not WorkspaceState.READY:
            raise FailedPrecondition(f"{source.workspace_id} is not there yet, or not any more")
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
        """Makes a copy of what `holding` keeps; the copy, or why there is none."""
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
                return Unavailable(f"nothing is copied: {error}")
            raise
        return whole

    def _known(self, order: Order, source_id: str) -> Workspace | None:
        """What this request has made already."""
        asked = (order.profile, order.request_id)
        known = next((one for one in self._catalog if (one.profile, one.request_id) == asked), None)
        if known is None:
            return None
        if (known.kind, known.source_id) != (order.kind, source_id):
            raise AlreadyExists(f"request {order.request_id} was another one")
        if known.state is WorkspaceState.REMOVING:
            raise FailedPrecondition(f"{known.workspace_id}, which it made, is being removed")
        return known

    # ---- removing

    async def remove(self, workspace: Workspace, reason: RemovalReason) -> None:
        """Removes a workspace or snapshot that nobody uses; returns when nothing is left of it.

        A copy that is being made is given up. Fails with FailedPrecondition while it is used, with
        BackendUnavailable where nobody can remove it, or with Unavailable; it then goes later.
        """
        ident = workspace.workspace_id
        if copying := self._copying.get(ident):
            # One that has not taken its first step would not notice.
            await asyncio.sleep(0)
            copying.cancel()
            await asyncio.wait({copying})
            if not self._catalog.get(ident):
                return
            # It was whole before it could be given up, or cannot be cleared away now.
        workspace = await self._catalog.wait_open(ident)
        if workspace.state is WorkspaceState.READY:
            # What nobody can remove is not marked either.
            self.stores.store_at(workspace.place, workspace.backend)
            self._check_unused(workspace)
            workspace = workspace.mark_removing(reason)
            with self._catalog.close(ident):
                await self._catalog.put(workspace)
        await self.finish(workspace)

    async def recover(self) -> None:
        """Has somebody look soon at what an executor before this one has not finished or seen."""
        for workspace in self._catalog:
            if workspace.state is WorkspaceState.MAKING:
                await self._catalog.put(workspace.mark_removing(RemovalReason.UNFINISHED))
            elif workspace.is_unmeasured:
                self._catalog.mark_unchecked(workspace.workspace_id)

    async def finish(self, workspace: Workspace) -> None:
        """Goes on removing what goes; whoever comes second waits with the first. It stays, with
        WorkspaceInUse, where another executor's sandbox is over it."""
        ident = workspace.workspace_id
        if ident not in self._removing:
            task = self._workers.start(f"remove {ident}", self._clear(workspace))
            self._removing[ident] = task
            task.add_done_callback(lambda _: self._removing.pop(ident, None))
        if refused := await asyncio.shield(self._removing[ident]):
            raise refused
        if self._catalog.get(ident):
            raise Unavailable(f"{ident} cannot be removed now; that is tried again")

    async def _clear(self, workspace: Workspace) -> WorkspaceInUse | None:
        """Removes what there is of one, and forgets it; what cannot be removed now stays GOING."""
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
            _log.warning("workspace %s stays until it can be removed: %s", ident, error)
            await self._catalog.put(workspace)
            return None
        self._metrics.workspaces_removed.labels(workspace.reason).inc()
        _log.info("workspace %s is gone: %s", ident, workspace.reason)
        return None

    # ---- those that nobody has

    async def orphans(self) -> list[tuple[WorkspaceStore, Path]]:
        """Folders and volumes of ours that nothing is written down about, each in its store."""
        if self.stores.workspaces.is_shared:
            why = "other executors may use what this one does not know (executor.workspaces.shared)"
            raise FailedPrecondition(why)
        unclaimed, found = self.stores.workspaces.unclaimed, list[tuple[WorkspaceStore, Path]]()
        for store in self.stores.by_place().values():
            try:
                present = await store.present(self._catalog.folder)
            except BackendError as error:
                raise Unavailable(f"{store.place} cannot be looked at: {error}") from error
            for path in sorted(present):
                if not (self._catalog.get(path.name) or path in unclaimed):
                    found.append((store, path))
        return found

    async def remove_orphan(self, workspace_id: str) -> None:
        """Removes one of those; fails with NotFound."""
        found = [one for one in await self.orphans() if one[1].name == workspace_id]
        if not found:
            raise NotFound(f"there is no workspace {workspace_id} that nobody has")
        for store, path in found:
            try:
                await store.remove(path)
            except BackendError as error:
                raise Unavailable(f"{workspace_id} cannot be removed now: {error}") from error

    def _now(self) -> float:
        return self._clock.now().timestamp()

    # ---- who uses one

    def list_users(self, workspace_id: str) -> list[str]:
        """The sessions whose sandboxes are over it now."""
        path = self._catalog.path(workspace_id)
        return sorted(
            sandbox.claim.session_id
            for sandbox in self._leases
            if sandbox.claim.state is SandboxState.READY or sandbox.connection is not None
            if Path(sandbox.claim.workspace) == path
        )

    def select_unused(self, workspaces: Iterable[Workspace]) -> list[Workspace]:
        """Those that nobody uses now."""
        return [
            one
            for one in workspaces
            if not (self._catalog.is_busy(one.workspace_id) or self.list_users(one.workspace_id))
        ]

    def _check_unused(self, workspace: Workspace) -> None:
        ident = workspace.workspace_id
        if sessions := self.list_users(ident):
            raise FailedPrecondition(
                f"{ident} is in use by session {', '.join(sessions)}: release its sandbox first, "
                "or wait until it ends"
            )
        if self._catalog.is_busy(ident):
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
