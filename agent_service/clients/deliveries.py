"""The gateway, which sends messages to chats."""

import grpc.aio

from agent_service.clients.patience import patiently
from agent_service.messaging import NotSent, SendingUnknown, Target
from hermes.common.v1 import origin_pb2
from hermes.gateway.v1 import delivery_pb2, delivery_pb2_grpc
from services.channels import Channels
from services.errors import FailedPrecondition, is_passing, message_of

CALL_S = 10.0
PATIENCE_S = 20.0


class GatewayDeliveries:
    """Messages by way of the gateway's outbox."""

    def __init__(self, channels: Channels, patience_s: float = PATIENCE_S) -> None:
        self._channels = channels
        self._patience_s = patience_s

    async def send(self, key: str, profile: str, target: Target, text: str) -> None:
        """Have a message sent; the same key again sends nothing more."""
        request = delivery_pb2.DeliverRequest(
            delivery_id=key,
            profile=profile,
            destination=origin_pb2.Origin(
                platform=target.platform, chat_id=target.chat_id, thread_id=target.thread_id
            ),
            text=text,
        )
        try:
            stub = delivery_pb2_grpc.DeliveryServiceStub(self._channels.to("gateway"))
            await patiently(lambda: stub.Deliver(request, timeout=CALL_S), self._patience_s)
        except FailedPrecondition as error:
            raise NotSent(error.message) from error
        except grpc.aio.AioRpcError as error:
            if is_passing(error):
                raise SendingUnknown from error
            raise NotSent(message_of(error)) from error
