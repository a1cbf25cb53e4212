"""FileService."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, unquote

import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp

from executor_service.errors import (
    BoxPoisoned,
    DigestMismatch,
    FileRefused,
    LinkClosed,
    PathInvalid,
)
from executor_service.link.messages import DirectoryEntry, FileInfo
from executor_service.sandboxes.connection import SandboxConnection
from executor_service.sandboxes.leases import Leases
from executor_service.sandboxes.workspace_monitor import WorkspaceMonitor
from executor_service.servicer.fields import in_range, proof
from hermes.executor.v1 import file_pb2, file_pb2_grpc, sandbox_pb2
from services.errors import HermesError, InvalidArgument, LimitExceeded, NotFound, Unavailable
from services.validation import page_size

Context = grpc.aio.ServicerContext[Any, Any]
_CHUNK_BYTES = 32 * 1024
_FARTHEST = 1 << 62
_SHA256_BYTES = 32
_PERMISSIONS = 0o777
_MAX_FILE_BYTES = 64 * 1024 * 1024
_MAX_PAGE_ENTRIES = 1000
_LIMITS = frozenset({"NO_SPACE", "TOO_MANY", "TOO_DEEP"})


class FileServicer(file_pb2_grpc.FileServiceServicer):
    """Serves the files of sandboxes."""

    def __init__(self, leases: Leases, monitor: WorkspaceMonitor) -> None:
        self._leases = leases
        self._monitor = monitor

    async def UploadFile(
        self, request_iterator: AsyncIterator[file_pb2.UploadFileRequest], context: Context
    ) -> file_pb2.UploadFileResponse:
        """Writes a file: whole if it matches what was announced, or not at all."""
        first = await anext(request_iterator, None)
        if first is None or first.WhichOneof("kind") != "header":
            raise InvalidArgument(
                "the first message must be the header", fields={"header": "is wanted first"}
            )
        header = first.header
        if not 0 <= header.length_bytes <= _MAX_FILE_BYTES:
            raise LimitExceeded(f"up to {_MAX_FILE_BYTES} bytes are taken at a time")
        mode = in_range("mode", header.mode, 0, _PERMISSIONS)
        sandbox = self._leases.authorize(proof(header.lease, header.profile))
        if len(header.sha256) != _SHA256_BYTES:
            raise InvalidArgument("sha256: 32 bytes are wanted", fields={"sha256": "32 bytes"})
        connection = sandbox.get_connection()
        await self._monitor.check_room(sandbox, header.path, header.length_bytes)
        async with (
            _answering(),
            (await connection.link()).files.upload(header.path, mode or None, True) as target,
        ):
            received, digest = 0, hashlib.sha256()
            async for chunk in _chunks(request_iterator):
                received += len(chunk)
                if received > header.length_bytes:
                    break
                digest.update(chunk)
                await target.write(chunk)
            if (received, digest.digest()) != (header.length_bytes, header.sha256):
                raise DigestMismatch(
                    "length or SHA-256 does not match the header; nothing was written"
                )
            info = await target.commit(received, digest.hexdigest())
        return file_pb2.UploadFileResponse(file=_file_info(header.path, info))

    async def DownloadFile(
        self, request: file_pb2.DownloadFileRequest, context: Context
    ) -> AsyncGenerator[file_pb2.DownloadFileResponse, None]:
        connection = self._box(request.lease, request.profile)
        offset = in_range("offset", request.offset, 0, _FARTHEST)
        length = in_range("length_bytes", request.length_bytes, 0, _FARTHEST)
        sent, digest = 0, hashlib.sha256()
        async with _answering():
            files = (await connection.link()).files
            info = await files.stat(request.path, follow=True)
            async with files.download(request.path, offset, length or None) as chunks:
                yield file_pb2.DownloadFileResponse(file=_file_info(request.path, info))
                async for chunk in chunks:
                    sent += len(chunk)
                    digest.update(chunk)
                    for start in range(0, len(chunk), _CHUNK_BYTES):
                        piece = bytes(chunk[start : start + _CHUNK_BYTES])
                        yield file_pb2.DownloadFileResponse(chunk=piece)
        end = file_pb2.DownloadFileResponse.End(length_bytes=sent, sha256=digest.digest())
        yield file_pb2.DownloadFileResponse(end=end)

    async def StatPath(
        self, request: file_pb2.StatPathRequest, context: Context
    ) -> file_pb2.StatPathResponse:
        connection = self._box(request.lease, request.profile)
        async with _answering():
            info = await (await connection.link()).files.stat(request.path)
        return file_pb2.StatPathResponse(file=_file_info(request.path, info))

    async def ListDirectory(
        self, request: file_pb2.ListDirectoryRequest, context: Context
    ) -> file_pb2.ListDirectoryResponse:
        connection = self._box(request.lease, request.profile)
        size = page_size(request.page_size, _MAX_PAGE_ENTRIES)
        # A name may not be UTF-8.
        after = unquote(request.page_token, errors="surrogateescape")
        entries: list[DirectoryEntry] = []
        has_more = True
        async with _answering():
            files = (await connection.link()).files
            while has_more and len(entries) < size:
                page = await files.list_directory(request.path, after, size - len(entries))
                entries += page.entries
                has_more = page.more and bool(page.entries)
                after = entries[-1].name if entries else ""
        return file_pb2.ListDirectoryResponse(
            entries=[_file_info(entry.name, entry) for entry in entries],
            next_page_token=quote(after, errors="surrogateescape") if has_more else "",
        )

    async def MovePath(
        self, request: file_pb2.MovePathRequest, context: Context
    ) -> file_pb2.MovePathResponse:
        connection = self._box(request.lease, request.profile)
        async with _answering():
            files = (await connection.link()).files
            await files.move(request.source_path, request.target_path, request.overwrite)
        return file_pb2.MovePathResponse()

    async def RemovePath(
        self, request: file_pb2.RemovePathRequest, context: Context
    ) -> file_pb2.RemovePathResponse:
        connection = self._box(request.lease, request.profile)
        async with _answering():
            await (await connection.link()).files.remove(request.path, request.recursive)
        return file_pb2.RemovePathResponse()

    def _box(self, lease: sandbox_pb2.Lease, profile: str) -> SandboxConnection:
        return self._leases.authorize(proof(lease, profile)).get_connection()


@asynccontextmanager
async def _answering() -> AsyncGenerator[None]:
    """Turns errors of the box into errors of the call."""
    try:
        yield
    except FileRefused as error:
        raise _answer(error) from error
    except (LinkClosed, BoxPoisoned) as error:
        message = f"the connection to the sandbox broke, check the result and try again: {error}"
        raise Unavailable(message) from error


def _answer(error: FileRefused) -> HermesError:
    message = str(error)
    if error.code == "NOT_FOUND":
        # Tells callers that the path is missing, not the sandbox.
        return NotFound(message, metadata={"missing": "path"})
    if error.code in _LIMITS:
        return LimitExceeded(message)
    if error.code == "DIGEST_MISMATCH":
        return DigestMismatch(message)
    return PathInvalid(message, fields={"path": message})


async def _chunks(
    messages: AsyncIterator[file_pb2.UploadFileRequest],
) -> AsyncGenerator[bytes, None]:
    async for message in messages:
        if message.WhichOneof("kind") != "chunk" or len(message.chunk) > _CHUNK_BYTES:
            wanted = "chunks of up to 32 KiB"
            raise InvalidArgument(f"{wanted} follow the header", fields={"chunk": wanted})
        yield message.chunk


def _file_info(path: str, info: FileInfo) -> file_pb2.FileInfo:
    changed = Timestamp()
    changed.FromNanoseconds(info.mtime_ns)
    return file_pb2.FileInfo(
        path=_display(path),
        kind=file_pb2.FileKind.Value(f"FILE_KIND_{info.type.upper()}"),
        size_bytes=info.size_bytes if info.type == "file" else 0,
        mode=info.mode,
        modify_time=changed,
        link_target=_display(info.target or ""),
    )


def _display(path: str) -> str:
    """A path as text, with U+FFFD for what is not UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="replace")
