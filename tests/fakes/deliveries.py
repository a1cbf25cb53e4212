"""A gateway that keeps what is delivered, as a real DeliveryService at the wire."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import grpc
import grpc.aio

from hermes.gateway.v1 import delivery_pb2, delivery_pb2_grpc, directory_pb2, directory_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class FakeDeliveries(
    delivery_pb2_grpc.DeliveryServiceServicer, directory_pb2_grpc.DirectoryServiceServicer
):
    """Stores each delivery once; the same id with another text is a conflict."""

    def __init__(self) -> None:
        self.requests: dict[str, delivery_pb2.DeliverRequest] = {}
        self.files: dict[tuple[str, bytes], bytes] = {}
        """By delivery and digest."""
        self.uploads = 0
        self.calls: Counter[str] = Counter()
        self.conflicts: list[str] = []
        self.unreachable = False
        self.lost_answers = 0
        """How many of the next deliveries are stored without their caller hearing of it."""
        self.cannot_take: frozenset[str] = frozenset()
        """Names of files."""
        self.refusal: grpc.StatusCode | None = None
        self.means = dict[str, list[str]]()
        """The chats that targets mean."""
        self.channels: list[directory_pb2.Channel] = []
        self._changed = asyncio.Condition()

    @property
    def texts(self) -> list[str]:
        """What was delivered, in order."""
        return [request.text for request in self.requests.values()]

    async def delivered(self, count: int) -> list[str]:
        """Return the texts once there are so many."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)
        return self.texts

    async def Deliver(
        self, request: delivery_pb2.DeliverRequest, context: Context
    ) -> delivery_pb2.DeliverResponse:
        if request.validate_only:
            if self.refusal is not None:
                await context.abort(self.refusal, "there is no such platform")
            return delivery_pb2.DeliverResponse(targets=self.means.get(request.target, ()))
        self.calls[request.delivery_id] += 1
        if self.unreachable:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the gateway is away")
        if self.refusal is not None:
            await context.abort(self.refusal, "there is no such platform")
        for file in request.attachments:
            if len(self.files.get((request.delivery_id, file.sha256), b"")) != file.length_bytes:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "a file is missing")
        if self.requests.get(request.delivery_id, request) != request:
            self.conflicts.append(request.delivery_id)
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "another delivery has this id")
        async with self._changed:
            self.requests[request.delivery_id] = request
            self._changed.notify_all()
        if self.lost_answers:
            self.lost_answers -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was cut")
        delivery = delivery_pb2.Delivery(delivery_id=request.delivery_id)
        left_out = [file.name for file in request.attachments if file.name in self.cannot_take]
        return delivery_pb2.DeliverResponse(delivery=delivery, left_out_names=left_out)

    async def ListChannels(
        self, request: directory_pb2.ListChannelsRequest, context: Context
    ) -> directory_pb2.ListChannelsResponse:
        return directory_pb2.ListChannelsResponse(channels=self.channels)

    async def GetDelivery(
        self, request: delivery_pb2.GetDeliveryRequest, context: Context
    ) -> delivery_pb2.GetDeliveryResponse:
        if self.unreachable:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the gateway is away")
        if request.delivery_id not in self.requests:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such delivery")
        delivery = delivery_pb2.Delivery(delivery_id=request.delivery_id)
        return delivery_pb2.GetDeliveryResponse(delivery=delivery)

    async def UploadAttachment(
        self,
        request_iterator: AsyncIterator[delivery_pb2.UploadAttachmentRequest],
        context: Context,
    ) -> delivery_pb2.UploadAttachmentResponse:
        header = (await anext(request_iterator)).header
        data = b"".join([request.chunk async for request in request_iterator])
        if (len(data), hashlib.sha256(data).digest()) != (header.length_bytes, header.sha256):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "this is another file")
        self.uploads += 1
        self.files[header.delivery_id, header.sha256] = data
        return delivery_pb2.UploadAttachmentResponse()

    async def DownloadAttachment(
        self, request: delivery_pb2.DownloadAttachmentRequest, context: Context
    ) -> AsyncGenerator[delivery_pb2.DownloadAttachmentResponse]:
        data = self.files.get((request.delivery_id, request.sha256))
        if data is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such file")
        yield delivery_pb2.DownloadAttachmentResponse(chunk=data)
