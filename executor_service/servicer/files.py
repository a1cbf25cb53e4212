"""FileService."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any
from urllib.parse import quote, unquote

import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp

from executor_service import files
from executor_service.claims.leases import Leases
from executor_service.claims.sandbox import Sandbox
from executor_service.files import MAX_ARCHIVE_BYTES, MAX_FILE_BYTES, Upload
from executor_service.link import FileInfo
from executor_service.pools.boxes import LiveBox
from executor_service.servicer.fields import in_range, proof
from executor_service.workspaces.watch import WorkspaceWatch
from hermes.executor.v1 import file_pb2, file_pb2_grpc, sandbox_pb2
from services.errors import InvalidArgument, LimitExceeded
from services.validation import page_size

Context = grpc.aio.ServicerContext[Any, Any]
_CHUNK_BYTES = 32 * 1024
_FARTHEST = 1 << 62
_SHA256_BYTES = 32
_PERMISSIONS = 0o777


class FileServicer(file_pb2_grpc.FileServiceServicer):
    """Serves the files of sandboxes."""

    def __init__(self, leases: Leases, watch: WorkspaceWatch) -> None:
        self._leases = leases
        self._watch = watch

    async def UploadFile(
        self, request_iterator: AsyncIterator[file_pb2.UploadFileRequest], context: Context
    ) -> file_pb2.UploadFileResponse:
        """Writes a file."""
        first = await anext(request_iterator, file_pb2.UploadFileRequest())
        if first.WhichOneof("kind") != "header":
            raise _no_header()
        sandbox = self._sandbox(first.header.lease, first.header.profile)
        wanted, live = _upload(first.header), sandbox.box()
        async with self._watch.writing(sandbox, wanted.path, wanted.length_bytes):
            info = await files.upload(live, wanted, _chunks(request_iterator))
        return file_pb2.UploadFileResponse(file=_file_info(wanted.path, info))

    async def DownloadFile(
        self, request: file_pb2.DownloadFileRequest, context: Context
    ) -> AsyncGenerator[file_pb2.DownloadFileResponse, None]:
        """Reads a file."""
        live = self._box(request.lease, request.profile)
        offset = in_range("offset", request.offset, 0, _FARTHEST)
        length = in_range("length_bytes", request.length_bytes, 0, _FARTHEST)
        sent, digest = 0, hashlib.sha256()
        async with files.download(live, request.path, offset, length or None) as (info, chunks):
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
        """Describes a path."""
        info = await files.stat(self._box(request.lease, request.profile), request.path)
        return file_pb2.StatPathResponse(file=_file_info(request.path, info))

    async def ListDirectory(
        self, request: file_pb2.ListDirectoryRequest, context: Context
    ) -> file_pb2.ListDirectoryResponse:
        """Lists a folder."""
        live = self._box(request.lease, request.profile)
        size = page_size(request.page_size, files.MAX_PAGE_ENTRIES)
        after = _after(request.page_token)
        page = await files.list_directory(live, request.path, after, size)
        last = page.entries[-1].name if page.entries else after
        return file_pb2.ListDirectoryResponse(
            entries=[_file_info(entry.name, entry) for entry in page.entries],
            next_page_token=_page_token(last) if page.has_more else "",
        )

    async def MovePath(
        self, request: file_pb2.MovePathRequest, context: Context
    ) -> file_pb2.MovePathResponse:
        """Renames a path."""
        live = self._box(request.lease, request.profile)
        await files.move(live, request.source_path, request.target_path, request.overwrite)
        return file_pb2.MovePathResponse()

    async def RemovePath(
        self, request: file_pb2.RemovePathRequest, context: Context
    ) -> file_pb2.RemovePathResponse:
        """Removes a path."""
        live = self._box(request.lease, request.profile)
        await files.remove(live, request.path, request.recursive)
        return file_pb2.RemovePathResponse()

    async def UploadArchive(
        self, request_iterator: AsyncIterator[file_pb2.UploadArchiveRequest], context: Context
    ) -> file_pb2.UploadArchiveResponse:
        """Makes a folder of an archive."""
        first = await anext(request_iterator, file_pb2.UploadArchiveRequest())
        if first.WhichOneof("kind") != "header":
            raise _no_header()
        sandbox = self._sandbox(first.header.lease, first.header.profile)
        wanted, live = _archive(first.header), sandbox.box()
        async with self._watch.writing(sandbox, wanted.path, wanted.length_bytes):
            info = await files.unpack(live, wanted, _chunks(request_iterator))
        return file_pb2.UploadArchiveResponse(folder=_file_info(wanted.path, info))

    def _box(self, lease: sandbox_pb2.Lease, profile: str) -> LiveBox:
        return self._sandbox(lease, profile).box()

    def _sandbox(self, lease: sandbox_pb2.Lease, profile: str) -> Sandbox:
        return self._leases.prove(proof(lease, profile))


def _no_header() -> InvalidArgument:
    return InvalidArgument("the header comes first", fields={"header": "is wanted first"})


async def _chunks(
    messages: AsyncIterator[file_pb2.UploadFileRequest | file_pb2.UploadArchiveRequest],
) -> AsyncGenerator[bytes, None]:
    async for message in messages:
        if message.WhichOneof("kind") != "chunk" or len(message.chunk) > _CHUNK_BYTES:
            wanted = "chunks of up to 32 KiB"
            raise InvalidArgument(f"{wanted} follow the header", fields={"chunk": wanted})
        yield message.chunk


def _upload(header: file_pb2.UploadFileRequest.Header) -> Upload:
    """What is announced; fails with InvalidArgument or LimitExceeded."""
    if len(header.sha256) != _SHA256_BYTES:
        raise InvalidArgument("sha256: 32 bytes are wanted", fields={"sha256": "32 bytes"})
    if not 0 <= header.mode <= _PERMISSIONS:
        raise InvalidArgument("mode: 0 to 0777 is wanted", fields={"mode": "0 to 0777"})
    if not 0 <= header.length_bytes <= MAX_FILE_BYTES:
        raise LimitExceeded(f"a file may have up to {MAX_FILE_BYTES} bytes")
    return Upload(header.path, header.length_bytes, header.sha256, header.mode or None)


def _archive(header: file_pb2.UploadArchiveRequest.Header) -> Upload:
    """What is announced; fails with InvalidArgument or LimitExceeded."""
    if len(header.sha256) != _SHA256_BYTES:
        raise InvalidArgument("sha256: 32 bytes are wanted", fields={"sha256": "32 bytes"})
    if not 0 <= header.length_bytes <= MAX_ARCHIVE_BYTES:
        raise LimitExceeded(f"an archive may have up to {MAX_ARCHIVE_BYTES} bytes")
    return Upload(header.path, header.length_bytes, header.sha256, None)


def _file_info(path: str, info: FileInfo) -> file_pb2.FileInfo:
    """What is at a path."""
    changed = Timestamp()
    changed.FromNanoseconds(info.mtime_ns)
    return file_pb2.FileInfo(
        path=_shown(path),
        kind=file_pb2.FileKind.Value(f"FILE_KIND_{info.type.upper()}"),
        size_bytes=info.size_bytes if info.type == "file" else 0,
        mode=info.mode,
        modify_time=changed,
        link_target=_shown(info.target or ""),
    )


def _page_token(name: str) -> str:
    """What asks for the entries after this one, whose name may be no text."""
    return quote(name, errors="surrogateescape")


def _after(token: str) -> str:
    """The name of the last entry of the page before."""
    return unquote(token, errors="surrogateescape")


def _shown(path: str) -> str:
    """A path as text; what of it is no UTF-8 is U+FFFD."""
    return path.encode(errors="surrogateescape").decode(errors="replace")
