"""A gateway whose streams break off for want of a database, at the wire."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from hermes.gateway.v1 import conversation_pb2_grpc
from hermes.gateway.v1.conversation_pb2 import (
    ConverseRequest,
    ConverseResponse,
    ListCommandsRequest,
    ListCommandsResponse,
)
from services.errors import DETAILS_KEY, DatabaseUnavailable, to_status

_Context = grpc.aio.ServicerContext[Any, Any]


class BrokenConversations(conversation_pb2_grpc.ConversationServiceServicer):
    """Each stream says what it was given, and all but the last then fail.

    The first calls, as many as `unserved` says, find another server, without this service. Before
    it fails a stream waits for as many requests behind the first as `awaited` says of it.
    """

    def __init__(
        self,
        streams: Sequence[Sequence[ConverseResponse]],
        awaited: Sequence[int] = (),
        unserved: int = 0,
    ) -> None:
        self._unserved = unserved
        self._streams = list(streams)
        self._awaited = list(awaited)
        self.openings: list[ConverseRequest.Open] = []
        self.requests: list[list[ConverseRequest]] = []

    async def Converse(
        self, request_iterator: AsyncIterator[ConverseRequest], context: _Context
    ) -> AsyncGenerator[ConverseResponse]:
        if self._unserved:
            self._unserved -= 1
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        requests = aiter(request_iterator)
        self.openings.append((await anext(requests)).open)
        awaited = self._awaited.pop(0) if self._awaited else 0
        self.requests.append([await anext(requests) for _ in range(awaited)])
        for response in self._streams.pop(0):
            yield response
        if self._streams:
            status = to_status(DatabaseUnavailable("PostgreSQL does not answer"))
            context.set_trailing_metadata(((DETAILS_KEY, status.SerializeToString()),))
            await context.abort(grpc.StatusCode.UNAVAILABLE, status.message)

    async def ListCommands(
        self, request: ListCommandsRequest, context: _Context
    ) -> ListCommandsResponse:
        return ListCommandsResponse()


@asynccontextmanager
async def serving(gateway: BrokenConversations) -> AsyncGenerator[grpc.aio.Channel]:
    """A channel to it."""
    server = grpc.aio.server()
    conversation_pb2_grpc.add_ConversationServiceServicer_to_server(gateway, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)
