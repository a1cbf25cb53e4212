"""A gateway that ends every conversation as soon as it has begun."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio

from hermes.gateway.v1 import conversation_pb2_grpc
from hermes.gateway.v1.conversation_pb2 import (
    ConverseRequest,
    ConverseResponse,
    ListCommandsRequest,
    ListCommandsResponse,
)


class _Conversations(conversation_pb2_grpc.ConversationServiceServicer):
    def __init__(self, why: str) -> None:
        self._why = why

    async def Converse(
        self,
        request_iterator: AsyncIterator[ConverseRequest],
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> AsyncGenerator[ConverseResponse]:
        """Refuse, while the client goes on to write."""
        await anext(aiter(request_iterator))
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self._why)
        yield ConverseResponse()

    async def ListCommands(
        self, request: ListCommandsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> ListCommandsResponse:
        """Refuse this as well."""
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self._why)


@asynccontextmanager
async def refusing_gateway(folder: Path, why: str) -> AsyncGenerator[grpc.aio.Channel]:
    """A channel to a gateway that refuses for this reason."""
    server = grpc.aio.server()
    conversation_pb2_grpc.add_ConversationServiceServicer_to_server(_Conversations(why), server)
    server.add_insecure_port(address := f"unix:{folder}/gateway.sock")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            yield channel
    finally:
        await server.stop(None)
