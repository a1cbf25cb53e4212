"""Operations on files of a box, executed by its supervisor."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from executor_service.errors import ExecutorError, FileRefused
from executor_service.link.messages import DirectoryPage, FileInfo, read, read_number, read_text
from executor_service.link.outbox import Outgoing
from executor_service.supervisor import frames
from executor_service.supervisor.frames import FrameError

Message = dict[str, Any]
T = TypeVar("T")


class _Operation(Protocol):
    def data(self, offset: int, data: memoryview) -> None: ...

    def done(self, message: Message) -> None: ...

    def failed(self, error: ExecutorError) -> None: ...


class _Answer(Generic[T]):
    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self.result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def data(self, offset: int, data: memoryview) -> None:
        raise FrameError(f"{len(data)} bytes at {offset} for an operation without data")

    def done(self, message: Message) -> None:
        said = read(message, self._kind)
        # The caller may have left just now.
        if not self.result.done():
            self.result.set_result(said)

    def failed(self, error: ExecutorError) -> None:
        if not self.result.done():
            self.result.set_exception(error)
            # Mark the exception as seen, in case no caller reads it.
            self.result.exception()


class Download:
    """Part of a file as it arrives: iterate over it; info is known after the end."""

    def __init__(self, ident: int, offset: int, outgoing: Outgoing) -> None:
        self.info: FileInfo | None = None
        self._ident = ident
        self._received = self._taken = offset
        self._outgoing = outgoing
        self._chunks: deque[memoryview] = deque()
        self._error: ExecutorError | None = None
        self._more = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[memoryview]:
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._taken += len(chunk)
                head = frames.FILE_HEAD.pack(self._taken)
                self._outgoing.send(frames.FILE_ACK, self._ident, head)
                yield chunk
            if self._error is not None:
                raise self._error
            if self.info is not None:
                return
            self._more.clear()
            await self._more.wait()

    def data(self, offset: int, data: memoryview) -> None:
        if offset != self._received or not data:
            raise FrameError("file data with a gap")
        self._received += len(data)
        if self._received - self._taken > frames.DOWNLOAD_WINDOW_BYTES:
            raise FrameError("more file data than was asked for")
        self._chunks.append(data)
        self._more.set()

    def done(self, message: Message) -> None:
        if read_number(message, "end") != self._received:
            raise FrameError("file does not end where its data does")
        self.info = read(message, FileInfo)
        self._more.set()

    def failed(self, error: ExecutorError) -> None:
        """The FILE_FAILED frame, or the end of the link."""
        self._error = error
        self._more.set()


class Upload(_Answer[FileInfo]):
    """An upload to the box; the file appears there whole, by commit, or not at all."""

    def __init__(self, ident: int, outgoing: Outgoing) -> None:
        super().__init__(FileInfo)
        self._ident = ident
        self._outgoing = outgoing
        self._sent = 0

    async def write(self, data: bytes | memoryview) -> None:
        """Append data; FileRefused as soon as the box refuses it."""
        view = memoryview(data)
        while view:
            piece, view = view[: frames.MAX_DATA_BYTES], view[frames.MAX_DATA_BYTES :]
            await self._outgoing.room()
            if self.result.done():
                await self.result
            head = frames.FILE_HEAD.pack(self._sent)
            self._sent += len(piece)
            self._outgoing.send(frames.FILE_DATA, self._ident, head, piece)

    async def commit(self, size_bytes: int, sha256: str) -> FileInfo:
        """Put the file in place if its size and SHA-256 (hex) match what arrived."""
        message = {"op": "commit", "size": size_bytes, "sha256": sha256}
        self._outgoing.send_json(frames.FILE, self._ident, message)
        return await self.result


class RemoteFiles:
    """File operations in one box; paths are absolute or relative to the workspace.

    Each raises FileRefused with a code if the box cannot do it, or the link's error.
    """

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._operations: dict[int, _Operation | None] = {}
        """None stands for an operation that its caller has cancelled."""
        self._error: ExecutorError | None = None

    async def stat(self, path: str, follow: bool = False) -> FileInfo:
        """Describe path; describes a symbolic link itself unless follow is set."""
        message = {"op": "stat", "path": path, "follow": follow}
        return await self._ask(message, FileInfo)

    async def list_directory(self, path: str, after: str = "", limit: int = 1000) -> DirectoryPage:
        """The first entries whose name comes after `after`; a page may have fewer than limit."""
        message = {"op": "list", "path": path, "after": after, "limit": limit}
        return await self._ask(message, DirectoryPage)

    async def move(self, source: str, target: str, overwrite: bool = False) -> None:
        message = {"op": "move", "source": source, "target": target, "overwrite": overwrite}
        await self._ask(message, _Nothing)

    async def remove(self, path: str, recursive: bool = False) -> None:
        """Remove a file, a link or an empty folder; with recursive a whole tree."""
        await self._ask({"op": "remove", "path": path, "recursive": recursive}, _Nothing)

    @asynccontextmanager
    async def download(
        self, path: str, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[Download]:
        """Read a regular file from offset; leaving the block before the end stops it."""
        message: Message = {"op": "read", "path": path, "offset": offset}
        if length is not None:
            message["length"] = length
        ident = self._outgoing.new_ident()
        download = Download(ident, offset, self._outgoing)
        async with self._running(ident, download, message):
            yield download

    @asynccontextmanager
    async def upload(
        self, path: str, mode: int | None = None, parents: bool = False
    ) -> AsyncGenerator[Upload]:
        """Write a file beside path; commit moves it there, otherwise it is dropped.

        An existing file keeps its permissions unless mode is given; parents makes missing folders.
        """
        message = {"op": "write", "path": path, "mode": mode, "parents": parents}
        ident = self._outgoing.new_ident()
        upload = Upload(ident, self._outgoing)
        async with self._running(ident, upload, message):
            yield upload

    async def _ask(self, message: Message, kind: type[T]) -> T:
        answer = _Answer(kind)
        async with self._running(self._outgoing.new_ident(), answer, message):
            return await answer.result

    @asynccontextmanager
    async def _running(
        self, ident: int, operation: _Operation, message: Message
    ) -> AsyncGenerator[None]:
        if self._error is not None:
            raise self._error
        self._operations[ident] = operation
        self._outgoing.send_json(frames.FILE, ident, message)
        try:
            yield
        finally:
            if ident in self._operations:
                # Its answer may still arrive.
                self._operations[ident] = None
                self._outgoing.send(frames.FILE_CANCEL, ident)

    def on_bytes(self, ident: int, payload: memoryview) -> None:
        (offset,), data = frames.split_head(frames.FILE_HEAD, payload)
        if operation := self._operation(ident):
            operation.data(offset, data)

    def on_done(self, ident: int, payload: memoryview) -> None:
        message = frames.read_json(payload)
        if operation := self._operation(ident):
            operation.done(message)
        del self._operations[ident]

    def on_failed(self, ident: int, payload: memoryview) -> None:
        message = frames.read_json(payload)
        error = FileRefused(read_text(message, "code"), read_text(message, "message"))
        if operation := self._operation(ident):
            operation.failed(error)
        del self._operations[ident]

    def on_link_ended(self, error: ExecutorError) -> None:
        self._error = error
        for operation in filter(None, self._operations.values()):
            operation.failed(error)
        self._operations.clear()

    def _operation(self, ident: int) -> _Operation | None:
        if ident not in self._operations:
            raise FrameError("answer to nothing")
        return self._operations[ident]


class _Nothing(Struct, frozen=True):
    """The answer of an operation without a result."""
