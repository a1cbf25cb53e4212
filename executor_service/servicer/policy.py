"""Who may call which method of the executor's services."""

from hermes.executor.v1 import exec_pb2, file_pb2, pool_pb2, sandbox_pb2, workspace_pb2
from services.rpc.auth import Identity, Policy, allow

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
"""The agent uses sandboxes and an operator manages them; no one else may call."""
