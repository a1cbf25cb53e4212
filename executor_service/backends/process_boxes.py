"""How a box that is processes of this machine is started.

An executor may die at any moment of a start, and nobody could end a box that it has not remembered.
So the supervisor says that it is ready and then waits to hear that the box is remembered: without
that it ends. What the program that makes the box says goes into a file, because it may outlive us.
Everything here blocks.
"""

import os
import socket
import struct
import subprocess
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from executor_service.backends.base import BoxSpec
from executor_service.errors import BoxCreateFailed
from executor_service.supervisor.frames import REMEMBERED

BOX_USER = 1000
"""Who commands run as where the executor is root; else they run as the executor's own user."""
SUPERVISOR_IN_BOX = "/opt/hermes/supervisor"
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/workspace",
    "USER": "hermes",
    "LOGNAME": "hermes",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",  # noqa: S108 - the box's own
}
"""All that is in the environment of a box."""
_CREDENTIALS = struct.Struct("3i")


class Order(Struct, frozen=True):
    """One box that is to be started."""

    spec: BoxSpec
    groups: list[Path]
    """Control groups that hold it to its limits."""
    shown_groups: list[tuple[Path, Path]]
    """Those that the box sees, and where."""
    listener: socket.socket
    """Where its supervisor takes connections."""
    errors: int
    """Descriptor for what its programs say on standard error."""


class Started(Struct, frozen=True):
    """A box that runs."""

    monitor: subprocess.Popen[bytes]
    """The program that has made it, which ends when it does."""
    first_pid: int
    """Its process 1, as the host sees it."""


@contextmanager
def running(
    argv: list[str],
    env: dict[str, str],
    order: Order,
    inherited: Iterable[int],
    ready: "ReadySocket",
    timeout_s: float,
) -> Generator[Started]:
    """Run the program that makes a box until the box's supervisor is there.

    The box goes on after the block. No process is left behind when that or the block fails.
    """
    monitor = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=order.errors,
        pass_fds=(*inherited, order.listener.fileno(), ready.fd),
        start_new_session=True,
        cwd="/",
        env=env,
    )
    try:
        yield Started(monitor, ready.wait(timeout_s))
        ready.remembered()
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(monitor.pid, 9)
        monitor.wait()
        raise


class ReadySocket:
    """Over which a supervisor says that it is ready, and hears that its box is remembered."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self._ours = ours
        self._theirs = theirs

    @classmethod
    @contextmanager
    def open(cls) -> Generator["ReadySocket"]:
        """For the time of a start."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            yield cls(ours, theirs)

    @property
    def fd(self) -> int:
        """The supervisor's end."""
        return self._theirs.fileno()

    def wait(self, timeout_s: float) -> int:
        """The process id of the supervisor that is ready, by the word of the kernel."""
        self._theirs.close()
        self._ours.settimeout(timeout_s)
        try:
            said, about, _, _ = self._ours.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
        except TimeoutError:
            raise BoxCreateFailed(f"no box within {timeout_s:.0f} s") from None
        if not said:
            raise BoxCreateFailed("the program that makes boxes ended before the box was there")
        pid: int = _CREDENTIALS.unpack(about[0][2])[0]
        return pid

    def remembered(self) -> None:
        """Let the supervisor serve."""
        self._ours.send(REMEMBERED)


def supervisor_arguments(order: Order, ready: ReadySocket) -> Iterator[str]:
    """What the supervisor is told of its box."""
    yield from ("--listen-fd", str(order.listener.fileno()), "--ready-fd", str(ready.fd))
    yield from ("--box", order.spec.box_key)
    yield from ("--secret-sha256", order.spec.secret_sha256)


@contextmanager
def memory_file(name: str, content: bytes = b"") -> Generator[int]:
    """A descriptor of a file in memory."""
    fd = os.memfd_create(name)
    try:
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)
