"""An executor that starts a command, loses the answer, and then has lost the sandbox as well."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc.aio

from executor_service.errors import SandboxLost
from hermes.executor.v1 import exec_pb2, exec_pb2_grpc, sandbox_pb2, sandbox_pb2_grpc
from services.errors import DETAILS_KEY, HermesError, ServiceUnavailable, to_status
from services.rpc.addresses import Address

_Context = grpc.aio.ServicerContext[Any, Any]


class ForgetfulExecutor(sandbox_pb2_grpc.SandboxServiceServicer, exec_pb2_grpc.ExecServiceServicer):
    """Each sandbox takes one command, and nothing after it."""

    def __init__(self) -> None:
        self.sandboxes: list[str] = []
        self.started: list[str] = []

    async def GetCapabilities(
        self, request: sandbox_pb2.GetCapabilitiesRequest, context: _Context
    ) -> sandbox_pb2.GetCapabilitiesResponse:
        return sandbox_pb2.GetCapabilitiesResponse()

    async def AcquireSandbox(
        self, request: sandbox_pb2.AcquireSandboxRequest, context: _Context
    ) -> sandbox_pb2.AcquireSandboxResponse:
        sandbox_id = f"sbx_{len(self.sandboxes) + 1}"
        self.sandboxes.append(sandbox_id)
        return sandbox_pb2.AcquireSandboxResponse(
            sandbox=sandbox_pb2.Sandbox(sandbox_id=sandbox_id),
            lease=sandbox_pb2.Lease(sandbox_id=sandbox_id, token="t", epoch=1),
        )

    async def AttachExec(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request_iterator: AsyncIterator[exec_pb2.AttachExecRequest], context: _Context
    ) -> None:
        opening = await anext(request_iterator)
        sandbox_id = opening.start.lease.sandbox_id or opening.open.lease.sandbox_id
        if sandbox_id in self.started:
            await fail(context, SandboxLost("the box is gone"))
        self.started.append(sandbox_id)
        await fail(context, ServiceUnavailable("the connection was cut"))


@asynccontextmanager
async def forgetful_executor(address: Address) -> AsyncGenerator[ForgetfulExecutor]:
    """Serve one at an address, to anybody."""
    # What it leaves out answers UNIMPLEMENTED.
    servicer = cast("Any", ForgetfulExecutor)()
    server = grpc.aio.server()
    sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(servicer, server)
    exec_pb2_grpc.add_ExecServiceServicer_to_server(servicer, server)
    server.add_insecure_port(address.target)
    await server.start()
    yield servicer
    await server.stop(None)


async def fail(context: _Context, error: HermesError) -> None:
    """End a call as a service does."""
    status = to_status(error)
    details = ((DETAILS_KEY, status.SerializeToString()),)
    await context.abort(error.reason.status, status.message, details)
