"""Records on disk of boxes that are processes, by which a new executor finds them.

Each box has a folder with `box.json`, its supervisor's socket and its standard error. All functions
block for a moment.
"""

import os
import shutil
import signal
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from msgspec import Struct, json

from executor_service.backends.base import Box
from executor_service.supervisor.processes import boot_id, read_process, send_signal
from services.validation import decode

_RECORD = "box.json"
_SOCKET = "socket"
_ERRORS = "stderr"
_BACKLOG = 8
_END_TIMEOUT_S = 10.0
_CLEANING_TIMEOUT_S = 60.0
_UNFINISHED_AFTER_S = 120.0


class ProcessMark(Struct, frozen=True):
    """A process, told apart from a later one with its id."""

    pid: int
    started_ticks: int
    boot_id: str

    @classmethod
    def read(cls, pid: int) -> "ProcessMark | None":
        """The mark of a living process; None if there is none."""
        process = read_process(pid)
        if process is None or process.state in "ZX":
            return None
        return cls(pid, process.started_ticks, boot_id())

    def lives(self) -> bool:
        return ProcessMark.read(self.pid) == self

    def kill(self) -> None:
        process = read_process(self.pid)
        if process is not None and self.lives():
            send_signal(process, signal.SIGKILL)


class Record(Struct, frozen=True):
    """One box."""

    key: str
    owner: str
    pool: str
    workspace: str
    monitor: ProcessMark
    """The program that made it, outside the box."""
    first: ProcessMark
    """The box's process 1; the whole box ends with it."""
    control_groups: tuple[str, ...]

    def to_box(self, backend: str) -> Box:
        native_id = str(self.first.pid)
        return Box(self.key, backend, native_id, Path(self.workspace), self.pool)


class Records:
    """The folders of all boxes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def prepare(self, key: str) -> Path:
        """An empty folder for a new box; FileExistsError if the key is taken."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self._folder / key
        folder.mkdir(mode=0o700)
        return folder

    def store(self, record: Record) -> None:
        part = self._folder / record.key / f".{_RECORD}"
        part.write_bytes(json.encode(record))
        part.chmod(0o600)
        part.replace(self._folder / record.key / _RECORD)

    def load(self, key: str) -> Record | None:
        try:
            return decode((self._folder / key / _RECORD).read_bytes(), Record)
        except OSError:
            return None

    def all(self) -> Iterator[Record]:
        """All recorded boxes; old folders without a record are removed."""
        for key in sorted(self.keys()):
            record = self.load(key)
            if record is not None:
                yield record
            elif self.is_settled(key):
                self.forget(key)

    def keys(self) -> set[str]:
        try:
            return {folder.name for folder in self._folder.iterdir()}
        except FileNotFoundError:
            return set()

    def is_settled(self, key: str) -> bool:
        """Whether a box's folder is so old that its start has ended."""
        return time.time() - _changed_at(self._folder / key) > _UNFINISHED_AFTER_S

    def forget(self, key: str) -> None:
        shutil.rmtree(self._folder / key, ignore_errors=True)

    @contextmanager
    def errors(self, key: str) -> Generator[int]:
        """A descriptor for the standard error of the box's programs."""
        fd = os.open(self._folder / key / _ERRORS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)

    def last_error(self, key: str) -> str:
        """The last line on standard error."""
        with suppress(OSError):
            lines = (self._folder / key / _ERRORS).read_text(errors="replace").splitlines()
            return next((line for line in reversed(lines) if line.strip()), "")
        return ""

    def listener(self, key: str) -> AbstractContextManager[socket.socket]:
        return listener_at(self._folder / key / _SOCKET)

    def connect(self, key: str) -> socket.socket:
        """A new connection to the box's supervisor; OSError if nothing listens."""
        return connection_to(self._folder / key / _SOCKET)


@contextmanager
def listener_at(path: Path) -> Generator[socket.socket]:
    """A new listening socket for the time of the block; its file stays."""
    with _socket(path) as (sock, address):
        sock.bind(address)
        sock.listen(_BACKLOG)
        yield sock


def connection_to(path: Path) -> socket.socket:
    """A new connection, ready for asyncio; OSError if nothing listens."""
    with _socket(path) as (sock, address):
        sock.setblocking(False)
        sock.connect(address)
        return sock.dup()


@contextmanager
def _socket(path: Path) -> Generator[tuple[socket.socket, str]]:
    """A socket and its address, shortened for the kernel if its folder's path is long."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            yield sock, f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _changed_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def end_processes(record: Record) -> bool:
    """Kill a box and wait until its processes are gone; False if one stays.

    The program that made it cleans up and then ends by itself.
    """
    began = time.monotonic()
    while (first_lives := record.first.lives()) or record.monitor.lives():
        waited_s = time.monotonic() - began
        if first_lives:
            record.first.kill()
        elif waited_s > _CLEANING_TIMEOUT_S:
            record.monitor.kill()
        if waited_s > (_END_TIMEOUT_S if first_lives else _CLEANING_TIMEOUT_S + _END_TIMEOUT_S):
            return False
        time.sleep(0.005)
    return True
