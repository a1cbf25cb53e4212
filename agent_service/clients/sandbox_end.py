"""The end of a session's sandbox that is not needed any more."""

from functools import partial

import grpc.aio
from msgspec import Struct
from sqlalchemy import Connection

from agent_service.clients.executors import Executors
from agent_service.clients.leases import GONE, SandboxLeases
from agent_service.storage import bindings, session_changes
from agent_service.storage.bindings import Binding
from hermes.executor.v1.sandbox_pb2 import ReleaseSandboxRequest
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from hermes.executor.v1.workspace_pb2 import DeleteWorkspaceRequest
from hermes.executor.v1.workspace_pb2_grpc import WorkspaceServiceStub
from services.database import Database
from services.errors import Reason, ServiceUnavailable, is_passing, message_of, reason_of
from services.rpc.deadlines import DEFAULT_UNARY_S


class SandboxEnd(Struct, frozen=True):
    """Ends sandboxes of idle sessions."""

    executors: Executors
    leases: SandboxLeases
    database: Database

    async def release(self, profile: str, session_id: str, *, deletes_workspace: bool) -> None:
        """End a session's sandbox; may be repeated.

        Raises NotFound, FailedPrecondition while a turn is unfinished, or ServiceUnavailable.
        """

        def read(conn: Connection) -> Binding:
            session_changes.check_idle(conn, session_id=session_id, profile=profile)
            return bindings.get(conn, session_id)

        binding = await self.database.read(read)
        if not binding.sandbox_id:
            return
        try:
            with_workspace = await self._end(profile, session_id, binding, deletes_workspace)
            if deletes_workspace and binding.workspace_id and not with_workspace:
                await self._delete(profile, binding)
        except grpc.aio.AioRpcError as error:
            if not is_passing(error):
                raise
            raise ServiceUnavailable(message_of(error)) from error

    async def _end(
        self, profile: str, session_id: str, binding: Binding, deletes_workspace: bool
    ) -> bool:
        """End a sandbox; return whether its workspace has been deleted too."""
        held = self.leases.held.get(session_id)
        if held is not None:
            self.leases.forget(session_id, held)
            release = ReleaseSandboxRequest(
                lease=held.lease, profile=profile, deletes_workspace=deletes_workspace
            )
            try:
                await SandboxServiceStub(held.channel).ReleaseSandbox(
                    release, timeout=DEFAULT_UNARY_S
                )
            except grpc.aio.AioRpcError as error:
                if reason_of(error) not in GONE:
                    raise
            else:
                return deletes_workspace

        async def is_idle() -> bool:
            await self._check_idle(profile, session_id)
            return True

        # Its lease was another process's.
        await self.executors.end(profile, session_id, binding.sandbox_id, binding.endpoint, is_idle)
        return False

    async def _check_idle(self, profile: str, session_id: str) -> None:
        check = partial(session_changes.check_idle, session_id=session_id, profile=profile)
        await self.database.read(check)

    async def _delete(self, profile: str, binding: Binding) -> None:
        request = DeleteWorkspaceRequest(workspace_id=binding.workspace_id, profile=profile)
        stub = WorkspaceServiceStub(self.executors.channel(binding.endpoint))
        try:
            await stub.DeleteWorkspace(request, timeout=DEFAULT_UNARY_S)
        except grpc.aio.AioRpcError as error:
            if reason_of(error) is not Reason.NOT_FOUND:
                raise
