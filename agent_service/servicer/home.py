"""HomeService."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc.aio

from agent_service.convert import home as convert
from agent_service.home.moving import Moving
from hermes.agent.v1 import home_pb2, home_pb2_grpc
from services.auth import caller
from services.errors import InvalidArgument

Context = grpc.aio.ServicerContext[Any, Any]


class HomeServicer(home_pb2_grpc.HomeServiceServicer):
    """Serves homes that move."""

    def __init__(self, moving: Moving) -> None:
        self._moving = moving

    async def ExportHome(
        self, request: home_pb2.ExportHomeRequest, context: Context
    ) -> AsyncGenerator[home_pb2.ExportHomeResponse]:
        """Streams the files of profiles."""
        outgoing = await self._moving.outgoing(request.profiles, with_secrets=request.with_secrets)
        yield home_pb2.ExportHomeResponse(summary=convert.summary(outgoing))
        for file in outgoing.files:
            head = convert.file_to_wire(file)
            async with aclosing(self._moving.read(outgoing, file)) as pieces:
                async for piece in pieces:
                    yield home_pb2.ExportHomeResponse(file=head, data=piece)
                    head = None
            if head is not None:
                yield home_pb2.ExportHomeResponse(file=head)

    async def ImportHome(
        self, request_iterator: AsyncIterator[home_pb2.ImportHomeRequest], context: Context
    ) -> home_pb2.ImportHomeResponse:
        """Takes files, all or none."""
        profiles: dict[str, None] = {}
        async with self._moving.incoming() as incoming:
            async for request in request_iterator:
                if request.finish:
                    existing = convert.existing(request.existing)
                    if request.dry_run:
                        planned = await self._moving.plan(incoming, [*profiles], existing)
                        return convert.taken(planned, 0)
                    put = self._moving.put(incoming, [*profiles], existing, caller())
                    return convert.taken(*await put)
                if request.HasField("file"):
                    file = convert.file_of(request.file)
                    profiles[file.profile] = None
                    await incoming.add(file)
                await incoming.write(request.data)
        raise InvalidArgument("the end is missing", fields={"finish": "in the last request"})
