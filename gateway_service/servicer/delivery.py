"""DeliveryService."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc.aio

from gateway_service import convert
from gateway_service.attachments import PIECE_BYTES, Attachments
from gateway_service.deliveries import Deliveries
from hermes.gateway.v1 import delivery_pb2, delivery_pb2_grpc
from services.auth import Identity, allow
from services.errors import InvalidArgument

Context = grpc.aio.ServicerContext[Any, Any]

_CALLERS = (Identity.SCHEDULER, Identity.AGENT, Identity.OPERATOR)
POLICY = allow(
    "hermes.gateway.v1.DeliveryService",
    {
        "Deliver": _CALLERS,
        "GetDelivery": _CALLERS,
        "UploadAttachment": (Identity.AGENT, Identity.OPERATOR),
        "DownloadAttachment": (Identity.OPERATOR,),
    },
)


class DeliveryServicer(delivery_pb2_grpc.DeliveryServiceServicer):
    """Serves deliveries."""

    def __init__(self, deliveries: Deliveries, attachments: Attachments) -> None:
        self._deliveries = deliveries
        self._attachments = attachments

    def register(self, server: grpc.aio.Server) -> None:
        """Adds the service to a server."""
        delivery_pb2_grpc.add_DeliveryServiceServicer_to_server(self, server)

    async def Deliver(
        self, request: delivery_pb2.DeliverRequest, context: Context
    ) -> delivery_pb2.DeliverResponse:
        """Stores a message for a chat."""
        info = await self._deliveries.deliver(convert.delivery_order(request))
        return delivery_pb2.DeliverResponse(
            delivery=convert.delivery(info), left_out_names=info.left_out
        )

    async def GetDelivery(
        self, request: delivery_pb2.GetDeliveryRequest, context: Context
    ) -> delivery_pb2.GetDeliveryResponse:
        """Returns a delivery."""
        profile = convert.profile_of(request.profile)
        info = await self._deliveries.get(request.delivery_id, profile)
        return delivery_pb2.GetDeliveryResponse(delivery=convert.delivery(info))

    async def UploadAttachment(
        self,
        request_iterator: AsyncIterator[delivery_pb2.UploadAttachmentRequest],
        context: Context,
    ) -> delivery_pb2.UploadAttachmentResponse:
        """Stores a file for a delivery."""
        first = await anext(request_iterator, delivery_pb2.UploadAttachmentRequest())
        if not first.HasField("header"):
            raise InvalidArgument("a file begins with its header", fields={"header": "is missing"})
        key = convert.upload(first.header)
        async with aclosing(_chunks(request_iterator)) as chunks:
            await self._attachments.store(key, first.header.length_bytes, chunks)
        return delivery_pb2.UploadAttachmentResponse()

    async def DownloadAttachment(
        self, request: delivery_pb2.DownloadAttachmentRequest, context: Context
    ) -> AsyncGenerator[delivery_pb2.DownloadAttachmentResponse]:
        """Reads a file of a delivery."""
        async with aclosing(self._attachments.read(convert.download(request))) as pieces:
            async for piece in pieces:
                yield delivery_pb2.DownloadAttachmentResponse(chunk=piece)


async def _chunks(
    requests: AsyncIterator[delivery_pb2.UploadAttachmentRequest],
) -> AsyncGenerator[bytes]:
    async for request in requests:
        if not request.HasField("chunk") or len(request.chunk) > PIECE_BYTES:
            raise InvalidArgument(
                "a file is sent in chunks", fields={"chunk": f"at most {PIECE_BYTES:,} bytes"}
            )
        yield request.chunk
