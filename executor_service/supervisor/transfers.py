"""File operations on the channel: each has an id and ends with one answer."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import time
from contextlib import contextmanager, suppress

from executor_service.supervisor import files, frames
from executor_service.supervisor.files import FileError, file_error
from executor_service.supervisor.frames import FrameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator

    from executor_service.supervisor.command import CommandContext
    from executor_service.supervisor.connection import Connection
    from executor_service.supervisor.files import Steps
    from executor_service.supervisor.paths import Paths

_MAX_TRANSFERS = 64
_SLICE_S = 0.005
_READ_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE_MODE = 0o644

_AT_ONCE: dict[str, Callable[[Paths, dict[str, Any]], dict[str, Any]]] = {
    "stat": files.stat_path,
    "list": files.list_folder,
    "move": files.move_path,
}


class Download:
    """Sends part of a regular file, as fast as it is acknowledged."""

    def __init__(self, paths: Paths, message: dict[str, Any]) -> None:
        self._offset = self._acked = int(message.get("offset", 0))
        self._left = int(message.get("length", sys.maxsize))
        self._fd = paths.open(message["path"], _READ_FILE)
        try:
            self._status = os.fstat(self._fd)
            _require_regular(self._status)
        except BaseException:
            self.close()
            raise

    def pump(self, connection: Connection, ident: int) -> bool:
        """Send what the window allows; False once the answer is sent."""
        while not (connection.closed or connection.congested):
            room = self._acked + frames.DOWNLOAD_WINDOW_BYTES - self._offset
            if room <= 0:
                return True
            size = min(frames.MAX_DATA_BYTES, room, self._left)
            data = os.pread(self._fd, size, self._offset)
            if not data:
                done = {**files.describe(self._status), "end": self._offset}
                connection.send(frames.pack_json(frames.FILE_DONE, ident, done))
                return False
            head = frames.FILE_HEAD.pack(self._offset)
            connection.send(frames.header(frames.FILE_BYTES, ident, head, data), head, data)
            self._offset += len(data)
            self._left -= len(data)
        return True

    def ack(self, offset: int) -> None:
        if not self._acked <= offset <= self._offset:
            raise FrameError("acknowledged what was not sent")
        self._acked = offset

    def close(self) -> None:
        os.close(self._fd)


class Upload:
    """A file that becomes its target once length and digest are right."""

    def __init__(self, paths: Paths, message: dict[str, Any]) -> None:
        self._fd = -1
        self._size = 0
        self._sha256 = hashlib.sha256()
        self._part = f".hermes-{os.urandom(8).hex()}.part"
        self._folder, self._name = _parent(paths, message)
        try:
            self._open(message)
        except OSError as error:
            # Report the requested path, not the temporary name.
            error.filename = message["path"]
            self.close()
            raise
        except BaseException:
            self.close()
            raise

    def _open(self, message: dict[str, Any]) -> None:
        mode = self._mode_of_target()
        if message.get("mode") is not None:
            mode = message["mode"] & 0o777
        self._fd = os.open(self._part, _CREATE, 0o600, dir_fd=self._folder)
        os.fchmod(self._fd, mode)

    def write(self, offset: int, data: memoryview) -> None:
        if offset != self._size:
            raise FrameError("upload has a gap")
        self._sha256.update(data)
        self._size += len(data)
        while data:
            data = data[os.write(self._fd, data) :]

    def commit(self, size: int, sha256: str) -> dict[str, Any]:
        """Move to the target; returns its description."""
        try:
            if (size, sha256) != (self._size, self._sha256.hexdigest()):
                why = "length or SHA-256 of what arrived is different"
                raise FileError("DIGEST_MISMATCH", why)
            folder = self._folder
            os.rename(self._part, self._name, src_dir_fd=folder, dst_dir_fd=folder)
            return files.describe(os.stat(self._name, dir_fd=folder, follow_symlinks=False))
        finally:
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            with suppress(FileNotFoundError):
                os.unlink(self._part, dir_fd=self._folder)
            os.close(self._fd)
        os.close(self._folder)

    def _mode_of_target(self) -> int:
        try:
            status = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return _NEW_FILE_MODE
        _require_regular(status)
        return stat.S_IMODE(status.st_mode) & 0o777


_BEGINNINGS: dict[str, Callable[[Paths, dict[str, Any]], Download | Upload]] = {
    "read": Download,
    "write": Upload,
}


class Transfers:
    """The file operations of a connection; they end with it."""

    def __init__(self, context: CommandContext, paths: Paths) -> None:
        self._context = context
        self._paths = paths
        self._running: dict[int, Download | Upload] = {}
        self._working: dict[int, Steps] = {}
        """Operations that take many steps."""
        self.handlers: dict[int, Callable[[int, memoryview], None]] = {
            frames.FILE: self._request,
            frames.FILE_DATA: self._data,
            frames.FILE_ACK: self._ack,
            frames.FILE_CANCEL: self._cancel,
        }

    def _request(self, ident: int, payload: memoryview) -> None:
        message = frames.read_json(payload)
        operation = message["op"]
        with self._answering(ident):
            if operation == "commit":
                self._commit(ident, message)
            elif operation == "remove":
                self._working[ident] = steps = files.remove_path(self._paths, message)
                self._work(ident, steps)
            elif operation in _BEGINNINGS:
                self._begin(ident, operation, message)
            else:
                self._done(ident, _AT_ONCE[operation](self._paths, message))

    def _data(self, ident: int, payload: memoryview) -> None:
        """Write to an upload; after a failure some data may still arrive."""
        (offset,), data = frames.split_head(frames.FILE_HEAD, payload)
        upload = self._running.get(ident)
        if isinstance(upload, Upload):
            with self._answering(ident):
                upload.write(offset, data)

    def _ack(self, ident: int, payload: memoryview) -> None:
        (offset,), _ = frames.split_head(frames.FILE_HEAD, payload)
        download = self._running.get(ident)
        if isinstance(download, Download):
            download.ack(offset)
            self._pump(ident)

    def _cancel(self, ident: int, _payload: memoryview) -> None:
        steps = self._working.pop(ident, None)
        if steps is not None:
            steps.close()
        if steps is not None or ident in self._running:
            self._failed(ident, FileError("CANCELLED", "cancelled by the caller"))

    def pump(self) -> None:
        for ident in list(self._running):
            self._pump(ident)

    def _pump(self, ident: int) -> None:
        download, connection = self._running.get(ident), self._context.connection
        if isinstance(download, Download) and connection is not None:
            with self._answering(ident):
                if not download.pump(connection, ident) and ident in self._running:
                    del self._running[ident]
                    download.close()

    def close(self) -> None:
        for transfer in self._running.values():
            transfer.close()
        self._running.clear()
        for steps in self._working.values():
            steps.close()
        self._working.clear()

    def _failed(self, ident: int, error: FileError) -> None:
        self._working.pop(ident, None)
        transfer = self._running.pop(ident, None)
        if transfer is not None:
            transfer.close()
        answer = {"code": error.code, "message": str(error)}
        self._context.send_json(frames.FILE_FAILED, ident, answer)

    def _begin(self, ident: int, operation: str, message: dict[str, Any]) -> None:
        if ident in self._running:
            raise FrameError("file operation id is in use")
        if len(self._running) >= _MAX_TRANSFERS:
            raise FileError("TOO_MANY", f"more than {_MAX_TRANSFERS} transfers at a time")
        self._running[ident] = _BEGINNINGS[operation](self._paths, message)
        self._pump(ident)

    def _commit(self, ident: int, message: dict[str, Any]) -> None:
        upload = self._running.get(ident)
        if isinstance(upload, Upload):
            del self._running[ident]
            self._done(ident, upload.commit(message["size"], message["sha256"]))

    def _work(self, ident: int, steps: Steps) -> None:
        """Take steps for a moment, then continue in the next round of the loop."""
        if self._working.get(ident) is not steps:
            return
        with self._answering(ident):
            pause_at = time.monotonic() + _SLICE_S
            for _ in steps:
                if time.monotonic() > pause_at:
                    self._context.loop.after(0, lambda: self._work(ident, steps))
                    return
            del self._working[ident]
            self._done(ident, {})

    @contextmanager
    def _answering(self, ident: int) -> Generator[None, None, None]:
        try:
            yield
        except FileError as error:
            self._failed(ident, error)
        except OSError as error:
            self._failed(ident, file_error(error))
        except UnicodeError:
            self._failed(ident, FileError("INVALID_PATH", "a name that this box cannot write"))

    def _done(self, ident: int, message: dict[str, Any]) -> None:
        self._context.send_json(frames.FILE_DONE, ident, message)


def _parent(paths: Paths, message: dict[str, Any]) -> tuple[int, str]:
    """Return an upload's folder, made if requested, and the name in it."""
    path: str = message["path"]
    parent = os.path.dirname(path.rstrip("/"))
    if message.get("parents") and parent:
        os.close(files.open_or_make_folder(paths, parent))
    return paths.open_parent(path, follow=True)


def _require_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise FileError("NOT_A_FILE", "not a regular file")
