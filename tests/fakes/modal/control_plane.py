"""Modal's API: apps, images, files, volumes, and the lives of sandboxes."""

import asyncio
import contextlib
import hashlib
import shutil
from typing import Any

from google.protobuf.empty_pb2 import Empty
from grpclib import GRPCError, Status
from grpclib.server import Stream
from modal_proto import api_pb2

from tests.fakes.modal.cloud import Cloud, Tagged, jwt, volume_entries
from tests.fakes.modal.machine import SUCCESS

_BUILDER = "2025.06"


class ControlPlane:
    """The calls that the SDK makes for sandboxes."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    async def ClientHello(self, stream: Stream[Any, Any]) -> None:
        await stream.recv_message()
        await stream.send_message(api_pb2.ClientHelloResponse())

    async def AuthTokenGet(self, stream: Stream[Any, Any]) -> None:
        await stream.recv_message()
        await stream.send_message(api_pb2.AuthTokenGetResponse(token=jwt("client")))

    async def AppGetOrCreate(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        name = f"{request.environment_name}/{request.app_name}"
        ident = "ap-" + hashlib.sha256(name.encode()).hexdigest()[:22]
        await stream.send_message(api_pb2.AppGetOrCreateResponse(app_id=ident))

    async def EnvironmentGetOrCreate(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        settings = api_pb2.EnvironmentSettings(image_builder_version=_BUILDER)
        metadata = api_pb2.EnvironmentMetadata(name=request.deployment_name, settings=settings)
        answer = api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)
        await stream.send_message(answer)

    async def ImageGetOrCreate(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        ident = "im-" + hashlib.sha256(request.image.SerializeToString()).hexdigest()[:22]
        result = api_pb2.GenericResult(status=SUCCESS)
        metadata = api_pb2.ImageMetadata(image_builder_version=_BUILDER)
        await stream.send_message(
            api_pb2.ImageGetOrCreateResponse(image_id=ident, result=result, metadata=metadata)
        )

    async def MountBatchedCheckExistence(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        missing = [one for one in request.sha256_hex_hashes if not self._cloud.blob(one).exists()]
        await stream.send_message(
            api_pb2.MountBatchedCheckExistenceResponse(missing_sha256_hex_hashes=missing)
        )

    async def MountPutFile(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        if hashlib.sha256(request.data).hexdigest() != request.sha256_hex:
            raise GRPCError(Status.INVALID_ARGUMENT, "the file is not what its digest says")
        blob = self._cloud.blob(request.sha256_hex)
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(request.data)
        await stream.send_message(api_pb2.MountPutFileResponse(exists=True))

    async def MountGetOrCreate(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        ident = self._cloud.mount(list(request.files))
        metadata = api_pb2.MountHandleMetadata(content_checksum_sha256_hex=ident)
        await stream.send_message(
            api_pb2.MountGetOrCreateResponse(mount_id=ident, handle_metadata=metadata)
        )

    async def VolumeGetOrCreate(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        made = api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING
        is_wanted = request.object_creation_type == made
        ident = self._cloud.volume(request.deployment_name, make=is_wanted)
        metadata = api_pb2.VolumeMetadata(name=request.deployment_name, version=request.version)
        await stream.send_message(
            api_pb2.VolumeGetOrCreateResponse(volume_id=ident, metadata=metadata)
        )

    async def VolumeList(self, stream: Stream[Any, Any]) -> None:
        await _request(stream)
        items = [
            api_pb2.VolumeListItem(
                label=folder.name,
                volume_id=ident,
                metadata=api_pb2.VolumeMetadata(name=folder.name),
            )
            for ident, folder in self._cloud.volumes.items()
        ]
        await stream.send_message(api_pb2.VolumeListResponse(items=items))

    async def VolumeListFiles(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        entries = await asyncio.to_thread(
            volume_entries, self._cloud.volumes[request.volume_id], request.recursive
        )
        await stream.send_message(api_pb2.VolumeListFilesResponse(entries=entries))

    async def VolumeDelete(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        await asyncio.to_thread(shutil.rmtree, self._cloud.volumes.pop(request.volume_id))
        await stream.send_message(Empty())

    async def SandboxCreateV2(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        assert stream.metadata is not None
        key = str(stream.metadata["x-idempotency-key"])
        if key not in self._cloud.answered:
            made = await self._cloud.create(request)
            machine = made.machine
            access = api_pb2.CommandRouterAccess(url=self._cloud.url, jwt=made.jwt)
            self._cloud.answered[key] = api_pb2.SandboxCreateV2Response(
                sandbox_id=machine.ident, task_id=machine.task_id, command_router_access=access
            )
        self._cloud.fails_afterwards("SandboxCreateV2")
        await stream.send_message(self._cloud.answered[key])

    async def SandboxWaitV2(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        machine = self._cloud.find(request.sandbox_id).machine
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.timeout):
                await machine.ended.wait()
        result = machine.result if machine.ended.is_set() else None
        await stream.send_message(api_pb2.SandboxWaitResponse(result=result))

    async def SandboxTerminateV2(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        machine = self._cloud.find(request.sandbox_id).machine
        await machine.end()
        await stream.send_message(api_pb2.SandboxTerminateResponse(existing_result=machine.result))

    async def SandboxListV2(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}.items()
        before = request.before_timestamp or float("inf")
        found = [
            one
            for one in self._cloud.living()
            if wanted <= one.tags.items()
            and one.created_at < before
            and one.app_id == request.app_id
        ]
        await stream.send_message(api_pb2.SandboxListResponse(sandboxes=map(_info, found)))

    async def SandboxTagsGetV2(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        tags = self._cloud.find(request.sandbox_id).tags.items()
        told = [api_pb2.SandboxTag(tag_name=name, tag_value=value) for name, value in tags]
        await stream.send_message(api_pb2.SandboxTagsGetResponse(tags=told))

    async def SandboxGetTaskIdV2(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        machine = self._cloud.find(request.sandbox_id).machine
        await stream.send_message(api_pb2.SandboxGetTaskIdResponse(task_id=machine.task_id))

    async def SandboxGetCommandRouterAccess(self, stream: Stream[Any, Any]) -> None:
        request = await _request(stream)
        made = self._cloud.find(request.sandbox_id)
        await stream.send_message(
            api_pb2.SandboxGetCommandRouterAccessResponse(url=self._cloud.url, jwt=made.jwt)
        )


async def _request(stream: Stream[Any, Any]) -> Any:
    request = await stream.recv_message()
    assert request is not None
    assert not isinstance(request, Empty)
    return request


def _info(one: Tagged) -> api_pb2.SandboxInfo:
    return api_pb2.SandboxInfo(
        id=one.machine.ident,
        created_at=one.created_at,
        app_id=one.app_id,
        metadata=api_pb2.SandboxHandleMetadata(app_id=one.app_id),
    )
