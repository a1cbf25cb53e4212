"""DeliveryService."""

from typing import Any

import grpc.aio

from gateway_service import convert
from gateway_service.deliveries import Deliveries
from hermes.gateway.v1 import delivery_pb2, delivery_pb2_grpc
from services.auth import Identity, allow

Context = grpc.aio.ServicerContext[Any, Any]

_CALLERS = (Identity.SCHEDULER, Identity.AGENT, Identity.OPERATOR)
POLICY = allow("hermes.gateway.v1.DeliveryService", {"Deliver": _CALLERS, "GetDelivery": _CALLERS})


class DeliveryServicer(delivery_pb2_grpc.DeliveryServiceServicer):
    """Serves deliveries."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries

    def register(self, server: grpc.aio.Server) -> None:
        """Adds the service to a server."""
        delivery_pb2_grpc.add_DeliveryServiceServicer_to_server(self, server)

    async def Deliver(
        self, request: delivery_pb2.DeliverRequest, context: Context
    ) -> delivery_pb2.DeliverResponse:
        """Stores a message for a chat."""
        info = await self._deliveries.deliver(convert.delivery_order(request))
        return delivery_pb2.DeliverResponse(delivery=convert.delivery(info))

    async def GetDelivery(
        self, request: delivery_pb2.GetDeliveryRequest, context: Context
    ) -> delivery_pb2.GetDeliveryResponse:
        """Returns a delivery."""
        profile = convert.profile_of(request.profile)
        info = await self._deliveries.get(request.delivery_id, profile)
        return delivery_pb2.GetDeliveryResponse(delivery=convert.delivery(info))
