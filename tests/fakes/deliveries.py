"""A gateway that keeps what is delivered, as a real DeliveryService at the wire."""

import asyncio
from collections import Counter
from typing import Any

import grpc
import grpc.aio

from hermes.gateway.v1 import delivery_pb2, delivery_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class FakeDeliveries(delivery_pb2_grpc.DeliveryServiceServicer):
    """Stores each delivery once; the same id with another text is a conflict."""

    def __init__(self) -> None:
        self.requests: dict[str, delivery_pb2.DeliverRequest] = {}
        self.calls: Counter[str] = Counter()
        self.conflicts: list[str] = []
        self.unreachable = False
        self.lost_answers = 0
        """How many of the next deliveries are stored without their caller hearing of it."""
        self.refusal: grpc.StatusCode | None = None
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
        self.calls[request.delivery_id] += 1
        if self.unreachable:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the gateway is away")
        if self.refusal is not None:
            await context.abort(self.refusal, "there is no such platform")
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
        return delivery_pb2.DeliverResponse(delivery=delivery)

    async def GetDelivery(
        self, request: delivery_pb2.GetDeliveryRequest, context: Context
    ) -> delivery_pb2.GetDeliveryResponse:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not needed here")
