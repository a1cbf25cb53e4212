"""File operations on the channel: each has an id and ends with one answer."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from contextlib import contextmanager, suppress

from executor_service.supervisor import files, frames
from executor_service.supervisor.files import FileError, file_error
from executor_service.supervisor.frames import FrameError
from executor_service.supervisor.paths import closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator

    from executor_service.supervisor.command import CommandContext
    from executor_service.supervisor.files import Steps
    from executor_service.supervisor.paths import Paths

_MAX_UPLOADS = 64
_SLICE_S = 0.005
_READ_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE_MODE = 0o644

_AT_ONCE: dict[str, Callable[[Paths, dict[str, Any]], dict[str, Any]]] = {
    "stat": files.stat_path,
    "list": files.list_folder,
    "move": files.move_path,
}


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


class Transfers:
    """The file operations of a connection; they end with it."""

    def __init__(self, context: CommandContext, paths: Paths) -> None:
        self._context = context
        self._paths = paths
        self._uploads: dict[int, Upload] = {}
        self._working: dict[int, Steps] = {}
        """Operations that take many steps."""
        self.handlers: dict[int, Callable[[int, memoryview], None]] = {
            frames.FILE: self._request,
            frames.FILE_DATA: self._data,
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
            elif operation == "read":
                self._done(ident, self._read(ident, message))
            elif operation == "write":
                self._begin(ident, message)
            else:
                self._done(ident, _AT_ONCE[operation](self._paths, message))

    def _data(self, ident: int, payload: memoryview) -> None:
        """Write to an upload; after a failure some data may still arrive."""
        (offset,), data = frames.split_head(frames.FILE_HEAD, payload)
        upload = self._uploads.get(ident)
        if upload is not None:
            with self._answering(ident):
                upload.write(offset, data)

    def _read(self, ident: int, message: dict[str, Any]) -> dict[str, Any]:
        """Send a piece of a regular file, which is shorter than requested only at its end."""
        offset, left = message["offset"], min(message["length"], frames.PIECE_BYTES)
        with closing(self._paths.open(message["path"], _READ_FILE)) as fd:
            status = os.fstat(fd)
            _require_regular(status)
            while data := os.pread(fd, min(left, frames.MAX_OUTPUT_BYTES), offset):
                self._context.send(frames.FILE_BYTES, ident, frames.FILE_HEAD.pack(offset), data)
                offset += len(data)
                left -= len(data)
        return {"end": offset, "file": f"{status.st_dev}:{status.st_ino}"}

    def _cancel(self, ident: int, _payload: memoryview) -> None:
        steps = self._working.pop(ident, None)
        if steps is not None:
            steps.close()
        if steps is not None or ident in self._uploads:
            self._failed(ident, FileError("CANCELLED", "cancelled by the caller"))

    def close(self) -> None:
        for upload in self._uploads.values():
            upload.close()
        self._uploads.clear()
        for steps in self._working.values():
            steps.close()
        self._working.clear()

    def _failed(self, ident: int, error: FileError) -> None:
        self._working.pop(ident, None)
        upload = self._uploads.pop(ident, None)
        if upload is not None:
            upload.close()
        answer = {"code": error.code, "message": str(error)}
        self._context.send_json(frames.FILE_FAILED, ident, answer)

    def _begin(self, ident: int, message: dict[str, Any]) -> None:
        if ident in self._uploads:
            raise FrameError("file operation id is in use")
        if len(self._uploads) >= _MAX_UPLOADS:
            raise FileError("TOO_MANY", f"more than {_MAX_UPLOADS} uploads at a time")
        self._uploads[ident] = Upload(self._paths, message)

    def _commit(self, ident: int, message: dict[str, Any]) -> None:
        upload = self._uploads.pop(ident, None)
        if upload is not None:
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
