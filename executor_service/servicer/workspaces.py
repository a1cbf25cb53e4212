"""WorkspaceService."""

from typing import Any

import grpc.aio

from executor_service.sandboxes.templates import Templates
from executor_service.sandboxes.workspace_manager import Order, WorkspaceManager
from executor_service.servicer.fields import profile_of, text, timestamp
from executor_service.workspaces.catalog import Catalog, RemovalReason, Workspace, WorkspaceKind
from hermes.executor.v1 import workspace_pb2, workspace_pb2_grpc
from services.errors import InvalidArgument
from services.rpc.messages import message_of
from services.validation import check_id, page_size

Context = grpc.aio.ServicerContext[Any, Any]
_PAGE_ENTRIES = 100
_MAX_NAME_CHARS = 200


class WorkspaceServicer(workspace_pb2_grpc.WorkspaceServiceServicer):
    """Serves workspaces and snapshots."""

    def __init__(self, catalog: Catalog, manager: WorkspaceManager, templates: Templates) -> None:
        self._catalog = catalog
        self._manager = manager
        self._templates = templates

    async def CreateWorkspace(
        self, request: workspace_pb2.CreateWorkspaceRequest, context: Context
    ) -> workspace_pb2.CreateWorkspaceResponse:
        template = self._templates.find(request.template)
        made = await self._manager.create(_order(request), template)
        return workspace_pb2.CreateWorkspaceResponse(workspace=self._one(made))

    async def ListWorkspaces(
        self, request: workspace_pb2.ListWorkspacesRequest, context: Context
    ) -> workspace_pb2.ListWorkspacesResponse:
        found, token = self._page(request, WorkspaceKind.WORKSPACE, "")
        return workspace_pb2.ListWorkspacesResponse(
            workspaces=map(self._one, found), next_page_token=token
        )

    async def DeleteWorkspace(
        self, request: workspace_pb2.DeleteWorkspaceRequest, context: Context
    ) -> workspace_pb2.DeleteWorkspaceResponse:
        await self._remove(request.profile, request.workspace_id, WorkspaceKind.WORKSPACE)
        return workspace_pb2.DeleteWorkspaceResponse()

    async def ForkWorkspace(
        self, request: workspace_pb2.ForkWorkspaceRequest, context: Context
    ) -> workspace_pb2.ForkWorkspaceResponse:
        is_snapshot = request.source_id.startswith("snp_")
        kind = WorkspaceKind.SNAPSHOT if is_snapshot else WorkspaceKind.WORKSPACE
        source = self._find(request.profile, request.source_id, kind)
        made = await self._manager.copy(_order(request), source)
        return workspace_pb2.ForkWorkspaceResponse(workspace=self._one(made))

    async def CreateSnapshot(
        self, request: workspace_pb2.CreateSnapshotRequest, context: Context
    ) -> workspace_pb2.CreateSnapshotResponse:
        source = self._find(request.profile, request.workspace_id, WorkspaceKind.WORKSPACE)
        order = _order(request, WorkspaceKind.SNAPSHOT)
        made = await self._manager.copy(order, source)
        return workspace_pb2.CreateSnapshotResponse(snapshot=_snapshot(made))

    async def ListSnapshots(
        self, request: workspace_pb2.ListSnapshotsRequest, context: Context
    ) -> workspace_pb2.ListSnapshotsResponse:
        found, token = self._page(request, WorkspaceKind.SNAPSHOT, request.workspace_id)
        return workspace_pb2.ListSnapshotsResponse(
            snapshots=[_snapshot(one) for one in found], next_page_token=token
        )

    async def DeleteSnapshot(
        self, request: workspace_pb2.DeleteSnapshotRequest, context: Context
    ) -> workspace_pb2.DeleteSnapshotResponse:
        await self._remove(request.profile, request.snapshot_id, WorkspaceKind.SNAPSHOT)
        return workspace_pb2.DeleteSnapshotResponse()

    def _find(self, profile: str, workspace_id: str, kind: WorkspaceKind) -> Workspace:
        return self._catalog.find(profile_of(profile), workspace_id, kind)

    async def _remove(self, profile: str, workspace_id: str, kind: WorkspaceKind) -> None:
        found = self._find(profile, workspace_id, kind)
        await self._manager.remove(found.workspace_id, RemovalReason.ASKED)

    def _page(
        self,
        request: workspace_pb2.ListWorkspacesRequest | workspace_pb2.ListSnapshotsRequest,
        kind: WorkspaceKind,
        source_id: str,
    ) -> tuple[list[Workspace], str]:
        size = page_size(request.page_size, _PAGE_ENTRIES)
        found = [
            one
            for one in self._catalog
            if (one.profile, one.kind) == (profile_of(request.profile), kind)
            if source_id in ("", one.source_id) and one.workspace_id > request.page_token
        ]
        found.sort(key=lambda one: one.workspace_id)
        page = found[:size]
        return page, page[-1].workspace_id if len(found) > size else ""

    def _one(self, found: Workspace) -> workspace_pb2.Workspace:
        return message_of(
            found,
            workspace_pb2.Workspace,
            active_session_ids=self._manager.list_users(found.workspace_id),
            create_time=timestamp(found.created_at),
            use_time=timestamp(found.used_at),
            limit_bytes=self._manager.stores.limit_bytes(found.template),
        )


def _order(
    request: workspace_pb2.CreateWorkspaceRequest
    | workspace_pb2.ForkWorkspaceRequest
    | workspace_pb2.CreateSnapshotRequest,
    kind: WorkspaceKind = WorkspaceKind.WORKSPACE,
) -> Order:
    profile = profile_of(request.profile)
    check_id("request_id", request.request_id)
    check_id("profile", profile)
    if len(request.name) > _MAX_NAME_CHARS:
        wanted = f"at most {_MAX_NAME_CHARS} characters"
        raise InvalidArgument(f"name: {wanted}", fields={"name": wanted})
    return Order(profile, request.request_id, text("name", request.name), kind)


def _snapshot(found: Workspace) -> workspace_pb2.Snapshot:
    return message_of(
        found,
        workspace_pb2.Snapshot,
        snapshot_id=found.workspace_id,
        workspace_id=found.source_id,
        create_time=timestamp(found.created_at),
        use_time=timestamp(found.used_at),
    )
