"""The executor's services as a server has them, and who may call which method."""

import grpc.aio

from executor_service.servicer.execs import ExecServicer
from executor_service.servicer.files import FileServicer
from executor_service.servicer.pools import PoolServicer
from executor_service.servicer.sandboxes import SandboxServicer
from executor_service.servicer.workspaces import WorkspaceServicer
from hermes.executor.v1 import (
    exec_pb2,
    exec_pb2_grpc,
    file_pb2,
    file_pb2_grpc,
    pool_pb2,
    pool_pb2_grpc,
    sandbox_pb2,
    sandbox_pb2_grpc,
    workspace_pb2,
    workspace_pb2_grpc,
)
from services.auth import Identity, Policy, allow

_USERS = (Identity.AGENT, Identity.OPERATOR)
_CALLERS = {
    sandbox_pb2.DESCRIPTOR: _USERS,
    exec_pb2.DESCRIPTOR: _USERS,
    file_pb2.DESCRIPTOR: _USERS,
    workspace_pb2.DESCRIPTOR: _USERS,
    pool_pb2.DESCRIPTOR: (Identity.OPERATOR,),
}
POLICY: Policy = {
    name: allowed
    for file, callers in _CALLERS.items()
    for service in file.services_by_name.values()
    for name, allowed in allow(
        service.full_name, {method.name: callers for method in service.methods}
    ).items()
}
"""The agent uses sandboxes, an operator looks after them; nobody else has business here."""


def register(
    server: grpc.aio.Server,
    sandboxes: SandboxServicer,
    execs: ExecServicer,
    files: FileServicer,
    pools: PoolServicer,
    workspaces: WorkspaceServicer,
) -> None:
    """Adds the servicers to a server."""
    sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(sandboxes, server)
    exec_pb2_grpc.add_ExecServiceServicer_to_server(execs, server)
    file_pb2_grpc.add_FileServiceServicer_to_server(files, server)
    pool_pb2_grpc.add_PoolServiceServicer_to_server(pools, server)
    workspace_pb2_grpc.add_WorkspaceServiceServicer_to_server(workspaces, server)
