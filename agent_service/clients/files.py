"""Files of a session's sandbox, over the executor's FileService."""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol, TypeVar

import grpc.aio

from agent_service.clients.leases import Held
from agent_service.clients.patience import patiently
from agent_service.sandbox import FileStat, PathRefused, SandboxUnavailable
from hermes.executor.v1 import file_pb2
from hermes.executor.v1.file_pb2_grpc import FileServiceStub
from services.errors import Reason, details_of, message_of, reason_of
from services.streams import open_stream

CHUNK_BYTES = 32 * 1024

_T = TypeVar("_T")

_KINDS = {
    file_pb2.FILE_KIND_FILE: "file",
    file_pb2.FILE_KIND_DIRECTORY: "directory",
    file_pb2.FILE_KIND_SYMLINK: "symlink",
}


class Claiming(Protocol):
    """Claims a session's sandbox."""

    @property
    def profile(self) -> str:
        """Whose it is."""
        ...

    async def hold(self, *, keyed: bool) -> Held:
        """The sandbox, claimed where it has to be; SandboxUnavailable when there is none."""
        ...

    async def left(self, held: Held, error: grpc.aio.AioRpcError) -> bool:
        """Forget the sandbox when an error says that it is gone; whether another may be claimed."""
        ...


class SessionFiles:
    """The files of one session."""

    def __init__(self, sandbox: Claiming) -> None:
        self._sandbox = sandbox

    async def stat(self, path: str) -> FileStat | None:
        """What is at the path; None when nothing is."""

        async def look(held: Held) -> FileStat | None:
            request = file_pb2.StatPathRequest(
                lease=held.lease, profile=self._sandbox.profile, path=path
            )
            try:
                answer = await FileServiceStub(held.channel).StatPath(request)
            except grpc.aio.AioRpcError as error:
                if is_missing(error):
                    return None
                raise
            return _stat(answer.file)

        return await self._ask(path, look)

    async def list(self, path: str, limit: int) -> tuple[list[FileStat], bool]:
        """At most `limit` entries of a folder by name, and whether there are more."""

        async def entries(held: Held) -> file_pb2.ListDirectoryResponse:
            request = file_pb2.ListDirectoryRequest(
                lease=held.lease, profile=self._sandbox.profile, path=path, page_size=limit
            )
            return await FileServiceStub(held.channel).ListDirectory(request)

        answer = await self._ask(path, entries)
        return [_stat(entry) for entry in answer.entries], bool(answer.next_page_token)

    async def read(self, path: str, max_bytes: int) -> bytes:
        """The whole file; PathRefused when it is longer than `max_bytes`."""

        async def contents(held: Held) -> bytes:
            request = file_pb2.DownloadFileRequest(
                lease=held.lease,
                profile=self._sandbox.profile,
                path=path,
                length_bytes=max_bytes + 1,
            )
            data, digest = bytearray(), b""
            async with open_stream(FileServiceStub(held.channel).DownloadFile(request)) as call:
                async for message in call:
                    data += message.chunk
                    digest = digest or message.end.sha256
            if hashlib.sha256(data).digest() != digest:
                raise PathRefused(f"{path} did not come as it is there; read it again.")
            return bytes(data)

        data = await self._ask(path, contents)
        if len(data) > max_bytes:
            raise PathRefused(
                f"{path} is longer than the {max_bytes:,} bytes that are read at once; `terminal` "
                "can take a part of it."
            )
        return data

    async def write(self, path: str, data: bytes) -> None:
        """Replace or make the file as a whole, and the folders above it."""

        async def upload(held: Held) -> file_pb2.UploadFileResponse:
            return await FileServiceStub(held.channel).UploadFile(self._upload(held, path, data))

        await self._ask(path, upload)

    async def move(self, source: str, target: str) -> None:
        """Give a file, if it is still there, another name, also that of a file that is there."""

        async def rename(held: Held) -> file_pb2.MovePathResponse:
            request = file_pb2.MovePathRequest(
                lease=held.lease,
                profile=self._sandbox.profile,
                source_path=source,
                target_path=target,
                overwrite=True,
            )
            return await FileServiceStub(held.channel).MovePath(request)

        await self._once(source, rename)

    async def remove(self, path: str) -> None:
        """Remove a file, if it is still there."""

        async def unlink(held: Held) -> file_pb2.RemovePathResponse:
            request = file_pb2.RemovePathRequest(
                lease=held.lease, profile=self._sandbox.profile, path=path
            )
            return await FileServiceStub(held.channel).RemovePath(request)

        await self._once(path, unlink)

    async def _once(self, path: str, call: Callable[[Held], Awaitable[object]]) -> None:
        """Do what finds nothing the second time: an answer that was lost has done it."""

        async def done(held: Held) -> None:
            try:
                await call(held)
            except grpc.aio.AioRpcError as error:
                if not is_missing(error):
                    raise

        await self._ask(path, done)

    async def _ask(self, path: str, call: Callable[[Held], Awaitable[_T]]) -> _T:
        """Do what may be done twice; once more when the sandbox had to be claimed anew."""
        held = await self._sandbox.hold(keyed=False)
        try:
            return await patiently(lambda: call(held), held.patience_s)
        except grpc.aio.AioRpcError as error:
            if is_missing(error) or not await self._sandbox.left(held, error):
                raise _failure(path, error) from error
        held = await self._sandbox.hold(keyed=False)
        try:
            return await patiently(lambda: call(held), held.patience_s)
        except grpc.aio.AioRpcError as error:
            raise _failure(path, error) from error

    async def _upload(
        self, held: Held, path: str, data: bytes
    ) -> AsyncGenerator[file_pb2.UploadFileRequest]:
        yield file_pb2.UploadFileRequest(
            header=file_pb2.UploadFileRequest.Header(
                lease=held.lease,
                profile=self._sandbox.profile,
                path=path,
                length_bytes=len(data),
                sha256=hashlib.sha256(data).digest(),
            )
        )
        for start in range(0, len(data), CHUNK_BYTES):
            yield file_pb2.UploadFileRequest(chunk=data[start : start + CHUNK_BYTES])


def _failure(path: str, error: grpc.aio.AioRpcError) -> Exception:
    reason = reason_of(error)
    if is_missing(error):
        return PathRefused(f"There is no {path}.")
    if reason in (Reason.PATH_INVALID, Reason.LIMIT_EXCEEDED):
        why = message_of(error)
        return PathRefused(why if path in why else f"{path}: {why}")
    return SandboxUnavailable(message_of(error))


def is_missing(error: grpc.aio.AioRpcError) -> bool:
    """Whether it is the path that is not there, and not the sandbox."""
    details = details_of(error)
    return details.reason is Reason.NOT_FOUND and details.metadata.get("missing") == "path"


def _stat(file: file_pb2.FileInfo) -> FileStat:
    return FileStat(
        path=file.path,
        kind=_KINDS.get(file.kind, "other"),
        size_bytes=file.size_bytes,
        modified_at_ms=file.modify_time.ToMilliseconds(),
        link_target=file.link_target,
    )
