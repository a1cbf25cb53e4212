"""Another replica of the agent that owns turns, at the wire."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from hermes.agent.v1 import turn_event_pb2, turn_pb2, turn_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class TurnOwner(turn_pb2_grpc.TurnServiceServicer):
    """Remembers what it is asked, and shows two pieces of text."""

    def __init__(self) -> None:
        self.interrupted: asyncio.Queue[str] = asyncio.Queue()
        self.watched_after: asyncio.Queue[int] = asyncio.Queue()

    async def StartTurn(
        self, request: turn_pb2.StartTurnRequest, context: Context
    ) -> turn_pb2.StartTurnResponse:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "its turn has begun")

    async def GetTurn(
        self, request: turn_pb2.GetTurnRequest, context: Context
    ) -> turn_pb2.GetTurnResponse:
        return turn_pb2.GetTurnResponse(turn=turn_pb2.Turn(turn_id=request.turn_id))

    async def InterruptTurn(
        self, request: turn_pb2.InterruptTurnRequest, context: Context
    ) -> turn_pb2.InterruptTurnResponse:
        self.interrupted.put_nowait(request.turn_id)
        return turn_pb2.InterruptTurnResponse()

    async def WatchTurn(
        self, request: turn_pb2.WatchTurnRequest, context: Context
    ) -> AsyncIterator[turn_pb2.WatchTurnResponse]:
        self.watched_after.put_nowait(request.after_sequence)
        for text in ("over", "there"):
            delta = turn_event_pb2.TextDelta(step=1, text=text)
            event = turn_event_pb2.TurnEvent(text_delta=delta)
            yield turn_pb2.WatchTurnResponse(events=[event])
        await asyncio.Event().wait()


@asynccontextmanager
async def turn_owner(folder: Path) -> AsyncGenerator[tuple[TurnOwner, str]]:
    """An owner of turns, and its endpoint."""
    owner, server, endpoint = TurnOwner(), grpc.aio.server(), f"unix:{folder / 'owner.sock'}"
    turn_pb2_grpc.add_TurnServiceServicer_to_server(owner, server)
    server.add_insecure_port(endpoint)
    await server.start()
    try:
        yield owner, endpoint
    finally:
        await server.stop(None)
