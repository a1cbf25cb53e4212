"""A turn service that answers each call with the next status of a list."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio

from hermes.agent.v1 import turn_pb2, turn_pb2_grpc
from services.rpc.addresses import UnixAddress
from services.rpc.auth import Authenticator, Gate, Identity, allow
from services.rpc.channels import Channels
from services.rpc.in_process import InProcessServer
from services.rpc.interceptors import CallPipeline
from tests.fakes.component import watched

TOKEN = "secret"


class Scripted(turn_pb2_grpc.TurnServiceServicer):
    """Answers each call with the next of its statuses, None being success."""

    def __init__(self, *statuses: grpc.StatusCode | None) -> None:
        self.statuses = list(statuses)
        self.metadata: list[dict[str, str | bytes]] = []
        self.positions: list[int] = []

    async def _next(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        pairs = context.invocation_metadata() or ()
        self.metadata.append({str(key): value for key, value in pairs})
        status = self.statuses.pop(0) if self.statuses else None
        if status is not None:
            await context.abort(status, "scripted")

    async def GetTurn(self, request: Any, context: Any) -> turn_pb2.GetTurnResponse:
        await self._next(context)
        return turn_pb2.GetTurnResponse()

    async def StartTurn(self, request: Any, context: Any) -> turn_pb2.StartTurnResponse:
        await self._next(context)
        return turn_pb2.StartTurnResponse()

    async def InterruptTurn(self, request: Any, context: Any) -> turn_pb2.InterruptTurnResponse:
        await self._next(context)
        return turn_pb2.InterruptTurnResponse()

    async def WatchTurn(
        self, request: turn_pb2.WatchTurnRequest, context: Any
    ) -> AsyncIterator[turn_pb2.WatchTurnResponse]:
        self.positions.append(request.after_sequence)
        if request.after_sequence < 5:
            yield watched(request.after_sequence + 1, "")
        await self._next(context)


@asynccontextmanager
async def scripted(
    folder: Path, *statuses: grpc.StatusCode | None
) -> AsyncGenerator[tuple[Scripted, Channels], None]:
    """Serves such a service on a socket in a folder, and yields it with channels to it."""
    servicer, address = Scripted(*statuses), UnixAddress(folder / "scripted.sock")
    server = grpc.aio.server()
    turn_pb2_grpc.add_TurnServiceServicer_to_server(servicer, server)
    server.add_insecure_port(address.target)
    await server.start()
    async with Channels(Identity.GATEWAY, {"agent": address}, token=TOKEN) as channels:
        yield servicer, channels
    await server.stop(None)


@asynccontextmanager
async def scripted_beside(
    *statuses: grpc.StatusCode | None,
) -> AsyncGenerator[tuple[Scripted, Channels], None]:
    """Serves such a service to this process, and yields it with channels to it."""
    servicer, server = Scripted(*statuses), InProcessServer()
    registry = cast("grpc.aio.Server", server)
    turn_pb2_grpc.add_TurnServiceServicer_to_server(servicer, registry)
    methods: dict[str, tuple[Identity, ...]] = dict.fromkeys(
        ("GetTurn", "InterruptTurn", "WatchTurn"), (Identity.GATEWAY,)
    )
    gate = Gate(
        Authenticator({Identity.GATEWAY: TOKEN}), [allow("hermes.agent.v1.TurnService", methods)]
    )
    server.start(CallPipeline(gate))
    async with Channels(Identity.GATEWAY, {"agent": server}, token=TOKEN) as channels:
        yield servicer, channels
    await server.stop(0)
