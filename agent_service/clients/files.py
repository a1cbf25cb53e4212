"""Files of a session's sandbox, through the executor's FileService."""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

import grpc.aio

from agent_service.clients.commands import Holding
from agent_service.clients.leases import Leased
from agent_service.records.sandbox import FileStat, PathRefused, SandboxUnavailable
from hermes.executor.v1 import file_pb2
from hermes.executor.v1.file_pb2_grpc import FileServiceStub
from services.errors import Reason, details_of, message_of, reason_of
from services.rpc.messages import record_of
from services.rpc.streams import open_stream
from services.rpc.uploads import upload_messages

CHUNK_BYTES = 32 * 1024

_T = TypeVar("_T")


class SessionFiles:
    """The files of one session."""

    def __init__(self, sandbox: Holding) -> None:
        self._sandbox = sandbox

    async def stat(self, path: str) -> FileStat | None:
        request = file_pb2.StatPathRequest(path=path)
        answer = await self._unless_missing(path, request, lambda stub: stub.StatPath(request))
        return None if answer is None else _stat(answer.file)

    async def list(self, path: str, limit: int) -> tuple[list[FileStat], bool]:
        request = file_pb2.ListDirectoryRequest(path=path, page_size=limit)
        answer = await self._ask(path, request, lambda stub: stub.ListDirectory(request))
        return [_stat(entry) for entry in answer.entries], bool(answer.next_page_token)

    async def read(self, path: str, max_bytes: int) -> bytes:
        request = file_pb2.DownloadFileRequest(path=path, length_bytes=max_bytes + 1)

        async def contents(stub: FileServiceStub) -> bytes:
            data, digest = bytearray(), b""
            async with open_stream(stub.DownloadFile(request)) as call:
                async for message in call:
                    data += message.chunk
                    digest = digest or message.end.sha256
            if hashlib.sha256(data).digest() != digest:
                raise PathRefused(f"{path} did not come as it is there; read it again.")
            return bytes(data)

        data = await self._ask(path, request, contents)
        if len(data) > max_bytes:
            raise PathRefused(
                f"{path} is longer than the {max_bytes:,} bytes that are read at once; `terminal` "
                "can take a part of it."
            )
        return data

    async def write(self, path: str, data: bytes) -> None:
        header = file_pb2.UploadFileRequest.Header(
            path=path, length_bytes=len(data), sha256=hashlib.sha256(data).digest()
        )
        await self._ask(path, header, lambda stub: stub.UploadFile(uploaded(header, data)))

    async def move(self, source: str, target: str) -> None:
        request = file_pb2.MovePathRequest(source_path=source, target_path=target, overwrite=True)
        await self._unless_missing(source, request, lambda stub: stub.MovePath(request))

    async def remove(self, path: str) -> None:
        request = file_pb2.RemovePathRequest(path=path)
        await self._unless_missing(path, request, lambda stub: stub.RemovePath(request))

    async def _unless_missing(
        self, path: str, request: Leased, call: Callable[[FileServiceStub], Awaitable[_T]]
    ) -> _T | None:
        """Ignore a missing path on a retry: the first attempt succeeded and its answer was lost."""

        async def done(stub: FileServiceStub) -> _T | None:
            try:
                return await call(stub)
            except grpc.aio.AioRpcError as error:
                if not is_missing(error):
                    raise
                return None

        return await self._ask(path, request, done)

    async def _ask(
        self, path: str, request: Leased, call: Callable[[FileServiceStub], Awaitable[_T]]
    ) -> _T:
        is_second = False
        while True:
            held = await self._sandbox.hold(keyed=False)
            stub = FileServiceStub(held.channel)
            try:
                return await held.ask(request, lambda stub=stub: call(stub))
            except grpc.aio.AioRpcError as error:
                is_over = is_second or is_missing(error)
                if is_over or not await self._sandbox.forget_if_gone(held, error):
                    raise _failure(path, error) from error
                is_second = True


def uploaded(
    header: file_pb2.UploadFileRequest.Header, data: bytes
) -> AsyncGenerator[file_pb2.UploadFileRequest]:
    """Yield the messages that upload data to a sandbox."""
    return upload_messages(file_pb2.UploadFileRequest, header, data, CHUNK_BYTES)


def _failure(path: str, error: grpc.aio.AioRpcError) -> Exception:
    reason = reason_of(error)
    if is_missing(error):
        return PathRefused(f"There is no {path}.")
    if reason in (Reason.PATH_INVALID, Reason.LIMIT_EXCEEDED):
        why = message_of(error)
        return PathRefused(why if path in why else f"{path}: {why}")
    return SandboxUnavailable(message_of(error))


def is_missing(error: grpc.aio.AioRpcError) -> bool:
    """Return whether the path is missing, not the sandbox."""
    details = details_of(error)
    return details.reason is Reason.NOT_FOUND and details.metadata.get("missing") == "path"


def _stat(file: file_pb2.FileInfo) -> FileStat:
    return record_of(file, FileStat, modified_at_ms=file.modify_time.ToMilliseconds())
