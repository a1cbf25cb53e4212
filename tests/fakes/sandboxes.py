"""The sessions of an agent, as far as somebody gives their sandboxes back."""

from typing import Any

import grpc.aio

from hermes.agent.v1 import session_change_pb2, session_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class FakeSandboxes(session_pb2_grpc.SessionServiceServicer):
    """Remembers the sessions whose sandboxes were given back."""

    def __init__(self) -> None:
        self.released: list[str] = []

    async def ReleaseSandbox(
        self, request: session_change_pb2.ReleaseSandboxRequest, context: Context
    ) -> session_change_pb2.ReleaseSandboxResponse:
        self.released.append(request.session_id)
        return session_change_pb2.ReleaseSandboxResponse()
