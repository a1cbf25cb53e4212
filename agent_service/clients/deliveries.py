"""Sends messages to chats through the gateway."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import grpc
import grpc.aio

from agent_service.clients.patience import patiently
from agent_service.records.messages import KnownChat, MediaFile, Message, NotSent, SendingUnknown
from hermes.common.v1 import origin_pb2
from hermes.gateway.v1 import delivery_pb2, delivery_pb2_grpc, directory_pb2, directory_pb2_grpc
from services import errors
from services.errors import FailedPrecondition, is_passing
from services.rpc.channels import Channels
from services.rpc.messages import message_of, record_of
from services.rpc.uploads import upload_messages

CALL_S = 10.0
UPLOAD_S = 120.0
CHUNK_BYTES = 256 * 1024
PATIENCE_S = 20.0

_T = TypeVar("_T")
_Stub = delivery_pb2_grpc.DeliveryServiceStub
_UPLOAD = delivery_pb2.UploadAttachmentRequest


class GatewayDeliveries:
    """The gateway's outbox as a Messenger."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def has(self, key: str, profile: str) -> bool:
        request = delivery_pb2.GetDeliveryRequest(delivery_id=key, profile=profile)

        async def look(stub: _Stub) -> bool:
            try:
                await stub.GetDelivery(request, timeout=CALL_S)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    return False
                raise
            return True

        return await self._ask(look)

    async def chats(self, profile: str) -> Sequence[KnownChat]:
        request = directory_pb2.ListChannelsRequest(profile=profile)

        async def look(_: _Stub) -> directory_pb2.ListChannelsResponse:
            stub = directory_pb2_grpc.DirectoryServiceStub(self._channels.to("gateway"))
            return await stub.ListChannels(request, timeout=CALL_S)

        return [record_of(each, KnownChat) for each in (await self._ask(look)).channels]

    async def resolve(self, message: Message) -> Sequence[str]:
        request = _request(message)
        request.validate_only = True
        return (await self._ask(lambda stub: stub.Deliver(request, timeout=CALL_S))).targets

    async def send(self, message: Message) -> Sequence[str]:
        request = _request(message)
        for file in message.files:
            await self._ask(
                lambda stub, file=file: stub.UploadAttachment(
                    upload_messages(_UPLOAD, _header(message, file), file.data, CHUNK_BYTES),
                    timeout=UPLOAD_S,
                )
            )
        answer = await self._ask(lambda stub: stub.Deliver(request, timeout=CALL_S))
        return answer.left_out_names

    async def _ask(self, call: Callable[[_Stub], Awaitable[_T]]) -> _T:
        try:
            stub = _Stub(self._channels.to("gateway"))
            return await patiently(lambda: call(stub), PATIENCE_S)
        except FailedPrecondition as error:
            raise NotSent(error.message) from error
        except grpc.aio.AioRpcError as error:
            if is_passing(error):
                raise SendingUnknown from error
            raise NotSent(errors.message_of(error)) from error


def _request(message: Message) -> delivery_pb2.DeliverRequest:
    return delivery_pb2.DeliverRequest(
        delivery_id=message.key,
        profile=message.profile,
        target=message.target,
        origin=message.origin and message_of(message.origin, origin_pb2.Origin),
        text=message.text,
        attachments=[
            delivery_pb2.Attachment(
                name=file.name,
                length_bytes=len(file.data),
                sha256=file.sha256,
                caption=file.caption,
            )
            for file in message.files
        ],
    )


def _header(message: Message, file: MediaFile) -> delivery_pb2.UploadAttachmentRequest.Header:
    return _UPLOAD.Header(
        delivery_id=message.key,
        profile=message.profile,
        length_bytes=len(file.data),
        sha256=file.sha256,
    )
