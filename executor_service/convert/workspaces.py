"""Workspaces and snapshots."""

from collections.abc import Sequence
from pathlib import Path

from google.protobuf.timestamp_pb2 import Timestamp

from executor_service.convert.common import profile_of, text, timestamp
from executor_service.workspaces.custody import Order
from executor_service.workspaces.records import Workspace, WorkspaceKind, WorkspaceState
from hermes.executor.v1 import workspace_pb2
from services.errors import InvalidArgument
from services.validation import check_id

_MAX_NAME_CHARS = 200
_STATES = {
    WorkspaceState.MAKING: workspace_pb2.WORKSPACE_STATE_MAKING,
    WorkspaceState.READY: workspace_pb2.WORKSPACE_STATE_READY,
    WorkspaceState.GOING: workspace_pb2.WORKSPACE_STATE_REMOVING,
}


def order(
    request: workspace_pb2.CreateWorkspaceRequest
    | workspace_pb2.ForkWorkspaceRequest
    | workspace_pb2.CreateSnapshotRequest,
    kind: WorkspaceKind = WorkspaceKind.WORKSPACE,
) -> Order:
    """Who wants what; fails with InvalidArgument."""
    profile = profile_of(request.profile)
    check_id("request_id", request.request_id)
    check_id("profile", profile)
    if len(request.name) > _MAX_NAME_CHARS:
        wanted = f"at most {_MAX_NAME_CHARS} characters"
        raise InvalidArgument(f"name: {wanted}", fields={"name": wanted})
    return Order(profile, request.request_id, text("name", request.name), kind)


def workspace(
    found: Workspace, sessions: Sequence[str], active: Sequence[str], limit_bytes: int | None
) -> workspace_pb2.Workspace:
    """A workspace, the sessions that have it, those whose sandboxes are over it, and how large they
    can make it."""
    return workspace_pb2.Workspace(
        workspace_id=found.workspace_id,
        name=found.name,
        state=_STATES[found.state],
        template=found.template,
        backend=found.backend,
        source_id=found.source_id,
        session_ids=sessions,
        active_session_ids=active,
        create_time=timestamp(found.created_at),
        use_time=_used(found),
        size_bytes=found.size_bytes,
        limit_bytes=limit_bytes,
    )


def orphan(path: Path) -> workspace_pb2.Workspace:
    """A workspace that nothing is known about."""
    return workspace_pb2.Workspace(
        workspace_id=path.name, state=workspace_pb2.WORKSPACE_STATE_ORPHAN
    )


def snapshot(found: Workspace) -> workspace_pb2.Snapshot:
    """A snapshot."""
    return workspace_pb2.Snapshot(
        snapshot_id=found.workspace_id,
        name=found.name,
        state=_STATES[found.state],
        workspace_id=found.source_id,
        backend=found.backend,
        create_time=timestamp(found.created_at),
        use_time=_used(found),
        size_bytes=found.size_bytes,
    )


def _used(found: Workspace) -> Timestamp:
    return timestamp(found.used_at)
