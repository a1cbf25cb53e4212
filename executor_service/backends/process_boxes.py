"""How a box that is processes of this machine is started. All functions block.

An executor may die at any moment, and nothing could end a box without a record. So the supervisor
reports that it is ready and ends unless the box is then recorded. The program that makes the box
writes its messages to a file, because it may outlive the executor.
"""

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from executor_service.backends.base import BoxSpec
from executor_service.backends.supervisor_zipapp import PROGRAM
from executor_service.errors import BoxCreateFailed
from executor_service.supervisor.frames import REMEMBERED

BOX_USER = 1000
"""The user of commands if the executor is root; otherwise they run as the executor's user."""


class HostUser(NamedTuple):
    """The user of commands on this machine."""

    uid: int
    gid: int


def usual_user() -> HostUser | None:
    """The user of commands in a folder of Hermes's own; None is the executor's user."""
    return HostUser(BOX_USER, BOX_USER) if os.geteuid() == 0 else None


def user_of(spec: BoxSpec) -> HostUser | None:
    """The user of a box's commands, for root the owner of a bound folder."""
    if os.geteuid() != 0 or not spec.is_bound:
        return usual_user()
    folder = spec.workspace.stat()
    return HostUser(folder.st_uid, folder.st_gid)


SUPERVISOR_IN_BOX = "/opt/hermes/supervisor"
PROGRAM_IN_BOX = f"{SUPERVISOR_IN_BOX}/{PROGRAM}"
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/workspace",
    "USER": "hermes",
    "LOGNAME": "hermes",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",  # noqa: S108 - the box's own
}
"""The whole environment of a box."""
_CREDENTIALS = struct.Struct("3i")


class Order(Struct, frozen=True):
    """A box to be started."""

    spec: BoxSpec
    groups: list[Path]
    """Control groups that enforce its limits."""
    shown_groups: list[tuple[Path, Path]]
    """Control groups that the box sees, and where."""
    listener: socket.socket
    """The socket on which its supervisor listens."""
    errors: int
    """Descriptor for the standard error of its programs."""


class Started(Struct, frozen=True):
    """A box that runs."""

    monitor_pid: int
    """The id of the program that made it, which ends with the box."""
    first_pid: int
    """The host's id of its process 1."""


def spawn(argv: list[str], env: dict[str, str], order: Order, inherited: Iterable[int]) -> int:
    """Start the program that makes a box; return its process id."""
    monitor = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=order.errors,
        pass_fds=(*inherited, order.listener.fileno()),
        start_new_session=True,
        cwd="/",
        env=env,
    )
    threading.Thread(target=monitor.wait, daemon=True).start()
    return monitor.pid


@contextmanager
def running(monitor_pid: int, ready: "ReadySocket", timeout_s: float) -> Generator[Started]:
    """Wait until a box's supervisor is ready.

    The box lives on after the block. If the start or the block fails, all its processes end.
    """
    try:
        yield Started(monitor_pid, ready.wait(timeout_s))
        ready.remembered()
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(monitor_pid, 9)
        raise


class ReadySocket:
    """Tells the executor that the supervisor is ready, and the supervisor that it is recorded."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self._ours = ours
        self._theirs = theirs

    @classmethod
    @contextmanager
    def open(cls) -> Generator["ReadySocket"]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            yield cls(ours, theirs)

    @property
    def fd(self) -> int:
        return self._theirs.fileno()

    def wait(self, timeout_s: float) -> int:
        """Wait until the supervisor is ready; return its process id, as told by the kernel."""
        self._theirs.close()
        self._ours.settimeout(timeout_s)
        try:
            said, about, _, _ = self._ours.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
        except TimeoutError:
            raise BoxCreateFailed(f"the box did not start within {timeout_s:.0f} s") from None
        if not said:
            raise BoxCreateFailed("the program that makes boxes ended before the box started")
        pid: int = _CREDENTIALS.unpack(about[0][2])[0]
        return pid

    def remembered(self) -> None:
        self._ours.send(REMEMBERED)


def supervisor_arguments(order: Order, listen_fd: int, ready_fd: int) -> Iterator[str]:
    """Yield the supervisor's arguments, with its numbers of descriptors."""
    yield from ("--listen-fd", str(listen_fd), "--ready-fd", str(ready_fd))
    yield from ("--box", order.spec.box_key)
    yield from ("--secret-sha256", order.spec.secret_sha256)


@contextmanager
def memory_file(name: str, content: bytes = b"") -> Generator[int]:
    """Create a file in memory for the time of the block."""
    fd = os.memfd_create(name)
    try:
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)
