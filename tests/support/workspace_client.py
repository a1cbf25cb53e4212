"""What operators and agents do with the workspaces of an executor."""

import uuid

from hermes.executor.v1 import workspace_pb2 as pb
from hermes.executor.v1.workspace_pb2_grpc import WorkspaceServiceStub
from tests.support.executor_client import Client

DEADLINE_S = 60


class Workspaces:
    """The workspaces of a client's profile."""

    def __init__(self, client: Client) -> None:
        self.stub = WorkspaceServiceStub(client.channel)
        self.profile = client.profile

    async def create(
        self, name: str = "", request_id: str = "", template: str = ""
    ) -> pb.Workspace:
        """A new, empty one."""
        request = pb.CreateWorkspaceRequest(
            request_id=request_id or uuid.uuid4().hex,
            profile=self.profile,
            name=name,
            template=template,
        )
        return (await self.stub.CreateWorkspace(request)).workspace

    async def get(self, workspace_id: str) -> pb.Workspace:
        """One as it is."""
        (found,) = [one for one in await self.all() if one.workspace_id == workspace_id]
        return found

    async def all(self) -> list[pb.Workspace]:
        """All of the profile."""
        request = pb.ListWorkspacesRequest(profile=self.profile)
        return list((await self.stub.ListWorkspaces(request)).workspaces)

    async def delete(self, workspace_id: str) -> None:
        """Removes one."""
        request = pb.DeleteWorkspaceRequest(workspace_id=workspace_id, profile=self.profile)
        await self.stub.DeleteWorkspace(request, timeout=DEADLINE_S)

    async def fork(self, source_id: str, request_id: str = "") -> pb.Workspace:
        """A copy of a workspace or a snapshot."""
        request = pb.ForkWorkspaceRequest(
            request_id=request_id or uuid.uuid4().hex, profile=self.profile, source_id=source_id
        )
        return (await self.stub.ForkWorkspace(request, timeout=DEADLINE_S)).workspace

    async def snapshot(self, workspace_id: str, request_id: str = "") -> pb.Snapshot:
        """Keeps what there is now."""
        request = pb.CreateSnapshotRequest(
            request_id=request_id or uuid.uuid4().hex,
            profile=self.profile,
            workspace_id=workspace_id,
        )
        return (await self.stub.CreateSnapshot(request, timeout=DEADLINE_S)).snapshot

    async def snapshots(self, workspace_id: str = "") -> list[pb.Snapshot]:
        """All of the profile, or of one workspace."""
        request = pb.ListSnapshotsRequest(profile=self.profile, workspace_id=workspace_id)
        return list((await self.stub.ListSnapshots(request)).snapshots)

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Removes a snapshot."""
        request = pb.DeleteSnapshotRequest(snapshot_id=snapshot_id, profile=self.profile)
        await self.stub.DeleteSnapshot(request, timeout=DEADLINE_S)
