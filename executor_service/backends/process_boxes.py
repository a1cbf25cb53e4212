"""Boxes that are processes of this machine: started, remembered, found again and ended alike.

An executor may die at any moment of a start, and nobody could end a box that it has not remembered.
So the supervisor says that it is ready and then waits to hear that the box is remembered: without
that it ends. What the program that makes the box says goes into a file, because it may outlive us.
Everything here blocks.
"""

import os
import re
import socket
import struct
import subprocess
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from executor_service.backends.base import Box, BoxSpec
from executor_service.backends.cgroups import Cgroups
from executor_service.backends.process_records import (
    ProcessMark,
    Record,
    Records,
    end_processes,
)
from executor_service.errors import BackendError, BoxCreateFailed
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
_KEY = re.compile("[a-z0-9_]{1,64}")
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


Start = Callable[[Order], AbstractContextManager[Started]]
"""Starts a box that goes on after the block, in which it is to be remembered."""


class ProcessBoxes:
    """The boxes of one owner, by the records in a folder."""

    def __init__(self, backend: str, owner: str, records: Records, extra_pids: int) -> None:
        self._backend = backend
        self._owner = owner
        self._records = records
        self._extra_pids = extra_pids
        """Processes outside of a box that are in its control groups."""
        self._monitors: dict[str, subprocess.Popen[bytes]] = {}

    def create(
        self, spec: BoxSpec, start: Start, cgroups: Cgroups, why: Callable[[str], str]
    ) -> Box:
        """Start a box and remember it; BoxCreateFailed says what why makes of the last words."""
        if not _KEY.fullmatch(spec.box_key):
            raise BoxCreateFailed(f"{spec.box_key!r} cannot be the key of a box")
        if not spec.workspace.is_dir():
            raise BoxCreateFailed(f"the workspace {spec.workspace} is not a folder")
        if os.geteuid() == 0 and spec.workspace.stat().st_uid == 0:
            os.chown(spec.workspace, BOX_USER, BOX_USER)
        try:
            self._records.prepare(spec.box_key)
        except FileExistsError as error:
            raise BoxCreateFailed(f"there is a box {spec.box_key} already") from error
        try:
            return self._start(spec, start, cgroups)
        except (OSError, BoxCreateFailed) as error:
            said = self._records.last_error(spec.box_key)
            self._records.forget(spec.box_key)
            raise BoxCreateFailed(why(said or str(error))) from error

    def destroy(self, key: str) -> None:
        """End every process of a box of ours and forget it; no error if it is gone."""
        record = self._records.load(key)
        if record is not None and record.owner != self._owner:
            return
        if record is not None:
            if not end_processes(record):
                raise BackendError(f"processes of box {key} cannot be killed")
            Cgroups.remove([Path(group) for group in record.control_groups])
            self._records.forget(key)
        monitor = self._monitors.pop(key, None)
        if monitor is not None:
            monitor.wait()

    def list(self) -> list[Box]:
        """The boxes that live; what is left of the others is removed."""
        living: list[Box] = []
        for record in self._records.all():
            if record.owner != self._owner:
                continue
            if record.first.lives():
                living.append(record.to_box(self._backend))
            else:
                self.destroy(record.key)
        return living

    def close(self) -> None:
        """Lets the boxes live on without this object, so that nobody here may wait for them."""
        for monitor in self._monitors.values():
            if monitor.poll() is None:
                monitor.returncode = 0
        self._monitors.clear()

    def _start(self, spec: BoxSpec, start: Start, cgroups: Cgroups) -> Box:
        key = spec.box_key
        groups = cgroups.make(key, spec.limits, self._extra_pids)
        try:
            with self._records.listener(key) as listener, self._records.errors(key) as errors:
                order = Order(spec, groups, cgroups.shown(groups), listener, errors)
                with start(order) as started:
                    record = self._remember(order, started)
        except BaseException:
            cgroups.remove(groups)
            raise
        self._monitors[key] = started.monitor
        return record.to_box(self._backend)

    def _remember(self, order: Order, started: Started) -> Record:
        monitor, first = ProcessMark.of(started.monitor.pid), ProcessMark.of(started.first_pid)
        if monitor is None or first is None:
            raise BoxCreateFailed("the box ended as soon as it had started")
        spec = order.spec
        place = (self._owner, spec.pool, str(spec.workspace))
        groups = tuple(map(str, order.groups))
        record = Record(spec.box_key, *place, monitor, first, groups)
        self._records.store(record)
        return record


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
