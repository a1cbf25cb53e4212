"""Files of a session's sandbox, over the executor's FileService."""

import hashlib
from collections.abc import AsyncGenerator

import grpc.aio

from agent_service.clients.leases import Held, SandboxLeases, is_gone
from agent_service.live_turn import LiveTurn
from agent_service.sandbox import FileStat, PathRefused, SandboxUnavailable
from hermes.executor.v1 import file_pb2
from hermes.executor.v1.file_pb2_grpc import FileServiceStub
from services.errors import Reason, message_of, reason_of
from services.streams import open_stream

CHUNK_BYTES = 32 * 1024

_KINDS = {
    file_pb2.FILE_KIND_FILE: "file",
    file_pb2.FILE_KIND_DIRECTORY: "directory",
    file_pb2.FILE_KIND_SYMLINK: "symlink",
}


class SessionFiles:
    """The files of one turn's session."""

    def __init__(self, leases: SandboxLeases, turn: LiveTurn) -> None:
        self._leases = leases
        self._turn = turn

    async def stat(self, path: str) -> FileStat | None:
        """What is at the path; None when nothing is."""
        held = await self._hold()
        request = file_pb2.StatPathRequest(lease=held.lease, profile=self._turn.profile, path=path)
        try:
            answer = await FileServiceStub(held.channel).StatPath(request)
        except grpc.aio.AioRpcError as error:
            if reason_of(error) is Reason.NOT_FOUND:
                return None
            raise await self._failure(held, path, error) from error
        return _stat(answer.file)

    async def list(self, path: str, limit: int) -> tuple[list[FileStat], bool]:
        """At most `limit` entries of a folder by name, and whether there are more."""
        held = await self._hold()
        request = file_pb2.ListDirectoryRequest(
            lease=held.lease, profile=self._turn.profile, path=path, page_size=limit
        )
        try:
            answer = await FileServiceStub(held.channel).ListDirectory(request)
        except grpc.aio.AioRpcError as error:
            raise await self._failure(held, path, error) from error
        return [_stat(entry) for entry in answer.entries], bool(answer.next_page_token)

    async def read(self, path: str, max_bytes: int) -> bytes:
        """The whole file; PathRefused when it is longer than `max_bytes`."""
        held = await self._hold()
        request = file_pb2.DownloadFileRequest(
            lease=held.lease, profile=self._turn.profile, path=path, length_bytes=max_bytes + 1
        )
        data = bytearray()
        try:
            async with open_stream(FileServiceStub(held.channel).DownloadFile(request)) as call:
                async for message in call:
                    data += message.chunk
        except grpc.aio.AioRpcError as error:
            raise await self._failure(held, path, error) from error
        if len(data) > max_bytes:
            raise PathRefused(f"{path} is longer than {max_bytes:,} bytes.")
        return bytes(data)

    async def write(self, path: str, data: bytes) -> None:
        """Replace or make the file as a whole, and the folders above it."""
        held = await self._hold()
        try:
            await FileServiceStub(held.channel).UploadFile(self._upload(held, path, data))
        except grpc.aio.AioRpcError as error:
            raise await self._failure(held, path, error) from error

    async def _hold(self) -> Held:
        return await self._leases.hold(self._turn, resumed=False)

    async def _upload(
        self, held: Held, path: str, data: bytes
    ) -> AsyncGenerator[file_pb2.UploadFileRequest]:
        yield file_pb2.UploadFileRequest(
            header=file_pb2.UploadFileRequest.Header(
                lease=held.lease,
                profile=self._turn.profile,
                path=path,
                length_bytes=len(data),
                sha256=hashlib.sha256(data).digest(),
            )
        )
        for start in range(0, len(data), CHUNK_BYTES):
            yield file_pb2.UploadFileRequest(chunk=data[start : start + CHUNK_BYTES])

    async def _failure(self, held: Held, path: str, error: grpc.aio.AioRpcError) -> Exception:
        reason = reason_of(error)
        if reason is Reason.NOT_FOUND:
            return PathRefused(f"There is no {path}.")
        if reason in (Reason.PATH_INVALID, Reason.LIMIT_EXCEEDED):
            return PathRefused(message_of(error))
        if is_gone(error):
            await self._leases.drop(self._turn, held)
            return SandboxUnavailable(
                "The sandbox was lost; its files outside /workspace are gone."
            )
        return SandboxUnavailable(message_of(error))


def _stat(file: file_pb2.FileInfo) -> FileStat:
    return FileStat(
        path=file.path,
        kind=_KINDS.get(file.kind, "other"),
        size_bytes=file.size_bytes,
        modified_at_ms=file.modify_time.ToMilliseconds(),
    )
