"""Which store has a template's workspaces, and which workspace a session's next sandbox gets."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from executor_service.backends.base import (
    Enforcement,
    WorkspacePlace,
    WorkspaceStore,
    store_elsewhere,
)
from executor_service.errors import BackendError, BackendUnavailable
from executor_service.records.sandboxes import AcquireRequest
from executor_service.sandboxes.templates import Template, Templates
from executor_service.workspaces.catalog import Catalog, Workspace, WorkspaceKind, WorkspaceState
from executor_service.workspaces.folders import Workspaces, is_workspace_id
from services.clock import Clock
from services.errors import Unavailable

ANY_BYTES = 1 << 50
"""More than any workspace takes."""


class WorkspaceStores:
    """The workspace stores of all open templates."""

    def __init__(self, templates: Templates, here: WorkspaceStore, workspaces: Workspaces) -> None:
        self._templates = templates
        self.here = here
        self.workspaces = workspaces

    def by_place(self) -> dict[str, WorkspaceStore]:
        found = {self.here.place: self.here}
        for template in self._templates:
            store = self.store_for(template)
            if store is not None:
                found[store.place] = store
        return found

    def store_for(self, template: Template) -> WorkspaceStore | None:
        """Returns the store of a template's workspaces; None if they cannot be managed."""
        if template.capabilities.workspaces is WorkspacePlace.HERE:
            return self.here
        return store_elsewhere(template.choice.backend)

    def place_for(self, template: Template) -> str:
        """Names the place of a template's workspaces; empty if they end with their boxes."""
        if template.capabilities.workspaces is WorkspacePlace.IN_BOX:
            return ""
        store = self.store_for(template)
        return template.name if store is None else store.place

    def store_at(self, place: str, backend: str) -> WorkspaceStore:
        """Returns the store of a place; fails with BackendUnavailable."""
        store = self.by_place().get(place)
        if store is None:
            raise BackendUnavailable(
                f"workspaces at {place} cannot be managed: the backend {backend} does not "
                "support it, is not configured, or does not answer now"
            )
        return store

    def limit_bytes(self, template: str) -> int | None:
        """The workspace limit of an open template; None if there is none or it is not enforced."""
        for one in self._templates:
            if one.name == template and one.capabilities.limits.workspace is not Enforcement.NONE:
                return one.limits.workspace_bytes
        return None

    def most_bytes(self, template: str) -> int:
        """The largest size of a template's workspaces; any size if no limit is enforced."""
        if template not in {one.name for one in self._templates}:
            return self._templates.default.limits.workspace_bytes
        return self.limit_bytes(template) or ANY_BYTES


class Allocation(Struct, frozen=True):
    """The workspace for a sandbox that is about to be claimed."""

    folder: Path | None
    """None for a new workspace."""
    kept: Workspace | None
    """Its record; None if it ends with the sandbox or is a folder of the host."""


class WorkspaceAllocator:
    """Finds the workspaces of sessions, and protects them from removal meanwhile."""

    def __init__(
        self, catalog: Catalog, stores: WorkspaceStores, workspaces: Workspaces, clock: Clock
    ) -> None:
        self.catalog = catalog
        self._stores = stores
        self._workspaces = workspaces
        self._clock = clock

    @asynccontextmanager
    async def allocate(
        self, template: Template, request: AcquireRequest
    ) -> AsyncGenerator[Allocation]:
        """Reserves the workspace of the session's next sandbox for the time of the block.

        Fails with PathInvalid, NotFound or LimitExceeded.
        """
        place = self._stores.place_for(template)
        if request.workdir:
            folder = await self._workspaces.workdir(
                request.workdir, template.capabilities.workspaces
            )
            yield Allocation(folder, None)
        elif not place:
            yield Allocation(None, None)
        else:
            asked = request.workspace_id or await self._brought(template, place, request)
            async with self.catalog.reserve(
                request.profile, request.session_id, place, asked
            ) as found:
                now = self._clock.now().timestamp()
                if found is None:
                    yield Allocation(None, self._new(template, request.profile, place, now))
                else:
                    path = self.catalog.path(found.workspace_id)
                    folder = await self._workspaces.restore(path)
                    yield Allocation(folder, replace(found, used_at=now))

    async def assign(self, allocation: Allocation, folder: Path, session_id: str) -> None:
        """Records a workspace as the session's; the claim that follows syncs it."""
        if allocation.kept is not None:
            await self.catalog.assign(
                replace(allocation.kept, workspace_id=folder.name), session_id
            )

    async def _brought(self, template: Template, place: str, request: AcquireRequest) -> str:
        """Takes over the session's workspace from another executor; empty if it is not shared.

        Fails with Unavailable.
        """
        ident = request.earlier_workspace_id
        if not self._workspaces.is_shared or not is_workspace_id(ident):
            return ""
        now = self._clock.now().timestamp()
        theirs = replace(self._new(template, request.profile, place, now), workspace_id=ident)
        known = self.catalog.get(ident)
        if known is not None:
            is_theirs = (known.profile, known.place) == (request.profile, place)
            return ident if is_theirs and known.state is WorkspaceState.READY else ""
        if not await self._is_there(template, ident):
            return ""
        await self.catalog.put(theirs)
        return ident

    async def _is_there(self, template: Template, ident: str) -> bool:
        """Whether a workspace exists; assumed where there is no store to ask."""
        store = self._stores.store_for(template)
        if store is None:
            return True
        try:
            return self.catalog.path(ident) in await store.present(self.catalog.folder)
        except BackendError as error:
            raise Unavailable(f"workspaces at {store.place} cannot be listed: {error}") from error

    def _new(self, template: Template, profile: str, place: str, now: float) -> Workspace:
        return Workspace(
            workspace_id="",
            kind=WorkspaceKind.WORKSPACE,
            profile=profile,
            place=place,
            template=template.name,
            backend=template.capabilities.name,
            created_at=now,
            used_at=now,
        )
