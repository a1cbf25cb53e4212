"""The sessions of an agent, as far as somebody gives their sandboxes back."""

import asyncio
from typing import Any

import grpc.aio

from hermes.agent.v1 import session_change_pb2, session_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class FakeSandboxes(session_pb2_grpc.SessionServiceServicer):
    """Remembers the sessions whose sandboxes were given back."""

    def __init__(self) -> None:
        self.released: list[str] = []
        self._changed = asyncio.Condition()

    async def has_released(self, count: int) -> None:
        """Return once so many sandboxes were given back."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.released) >= count)

    async def ReleaseSandbox(
        self, request: session_change_pb2.ReleaseSandboxRequest, context: Context
    ) -> session_change_pb2.ReleaseSandboxResponse:
        async with self._changed:
            self.released.append(request.session_id)
            self._changed.notify_all()
        return session_change_pb2.ReleaseSandboxResponse()
