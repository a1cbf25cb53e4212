"""Starting one bubblewrap box and waiting until its supervisor is there. Everything here blocks."""

import hashlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from executor_service.backends import bubblewrap_launch
from executor_service.backends.base import MIB, BoxSpec
from executor_service.backends.bubblewrap_host import BOX_USER, Argument, Host, root_arguments
from executor_service.errors import BoxCreateFailed

_TIMEOUT_S = 15.0
SUPERVISOR_IN_BOX = "/opt/hermes/supervisor"
_TMP, _VAR_TMP, _SHM = "/tmp", "/var/tmp", "/dev/shm"  # noqa: S108 - the box's own
_RUN_BYTES = 16 * MIB
_SHM_BYTES = 64 * MIB
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/workspace",
    "USER": "hermes",
    "LOGNAME": "hermes",
    "LANG": "C.UTF-8",
    "TMPDIR": _TMP,
}
_NAMESPACES = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--as-pid-1", "--new-session"),
    *("--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv"),
    *("--uid", str(BOX_USER), "--gid", str(BOX_USER)),
)


@dataclass(frozen=True, slots=True)
class Parts:
    """What every box of this executor is made from."""

    host: Host
    supervisor: Path
    own_etc: Path
    filter: bytes
    limits_processes_itself: bool
    """Whether the supervisor sets the limit of processes, for want of a control group."""


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The control groups of a box."""

    joined: list[Path]
    shown: list[tuple[Path, Path]]
    """Those that the box sees, and where."""


@dataclass(frozen=True, slots=True)
class Started:
    """A box that runs."""

    monitor: subprocess.Popen[bytes]
    first_pid: int


def start_box(
    spec: BoxSpec,
    parts: Parts,
    secret: str,
    groups: ControlGroups,
    listener: socket.socket,
    errors: int,
) -> Started:
    """Start a box, or leave no process behind."""
    stage: list[Path] = []
    with _pipe() as info, _pipe() as ready, _filter_file(parts.filter) as filter_fd:
        inherited = {
            "info": info.writer,
            "ready": ready.writer,
            "filter": filter_fd,
            "listener": listener.fileno(),
        }
        argv = list(_arguments(spec, parts, stage, groups.shown, inherited))
        argv += _supervisor_arguments(spec, parts, secret, inherited)
        request = {
            "control_groups": [str(group) for group in groups.joined],
            "stage": [str(path) for path in stage],
            "user": BOX_USER if os.geteuid() == 0 else None,
            "argv": argv,
        }
        monitor = subprocess.Popen(
            [sys.executable, "-I", "-S", bubblewrap_launch.__file__, json.dumps(request)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=tuple(inherited.values()),
            start_new_session=True,
            cwd="/",
            env={},
        )
        try:
            info.close_writer()
            ready.close_writer()
            first_pid = int(json.loads(info.read_until(b"}"))["child-pid"])
            ready.read_until(b"1")
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(monitor.pid, 9)
            monitor.wait()
            if isinstance(error, ValueError | TimeoutError):
                raise BoxCreateFailed(str(error)) from error
            raise
    return Started(monitor, first_pid)


def _arguments(
    spec: BoxSpec,
    parts: Parts,
    stage: list[Path],
    shown_groups: list[tuple[Path, Path]],
    inherited: dict[str, int],
) -> Iterator[Argument]:
    """bubblewrap's own arguments, up to the program."""

    def staged(path: Path) -> Argument:
        stage.append(path)
        return (len(stage) - 1, "")

    program = parts.host.bubblewrap
    stage.append(program.folder)
    yield (len(stage) - 1, f"/{program.name}")
    yield from _NAMESPACES
    yield from root_arguments(parts.host, stage, parts.own_etc)
    yield from ("--ro-bind", staged(parts.supervisor), SUPERVISOR_IN_BOX)
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from ("--perms", "1777", "--size", str(_SHM_BYTES), "--tmpfs", _SHM)
    yield from ("--remount-ro", "/dev")
    yield from ("--perms", "1777", "--size", str(spec.limits.tmp_bytes), "--tmpfs", _TMP)
    yield from ("--size", str(_RUN_BYTES), "--tmpfs", "/run", "--symlink", "../tmp", _VAR_TMP)
    for group, shown_at in shown_groups:
        yield from ("--ro-bind", str(group), str(shown_at))
    yield from ("--bind", staged(spec.workspace), "/workspace")
    # Last of all: bubblewrap makes the places for the mounts in it.
    yield from ("--remount-ro", "/", "--chdir", "/workspace")
    for name, value in _ENVIRONMENT.items():
        yield from ("--setenv", name, value)
    yield from ("--info-fd", str(inherited["info"]), "--seccomp", str(inherited["filter"]))


def _supervisor_arguments(
    spec: BoxSpec, parts: Parts, secret: str, inherited: dict[str, int]
) -> Iterator[Argument]:
    yield from ("--", parts.host.python, "-I", "-S", SUPERVISOR_IN_BOX)
    yield from ("--listen-fd", str(inherited["listener"]), "--ready-fd", str(inherited["ready"]))
    yield from ("--box", spec.box_key)
    yield from ("--secret-sha256", hashlib.sha256(secret.encode()).hexdigest())
    if parts.limits_processes_itself:
        yield from ("--max-processes", str(spec.limits.pids))


class _Pipe:
    """A pipe whose other end a child writes to."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def close_writer(self) -> None:
        os.close(self.writer)
        self.writer = -1

    def read_until(self, end: bytes) -> bytes:
        """All bytes up to end; ValueError if the writer goes first, TimeoutError if it is slow."""
        give_up_at = time.monotonic() + _TIMEOUT_S
        data = b""
        while end not in data:
            readable, _, _ = select.select([self.reader], [], [], give_up_at - time.monotonic())
            if not readable:
                raise TimeoutError(f"no box within {_TIMEOUT_S:.0f} s")
            piece = os.read(self.reader, 4096)
            if not piece:
                raise ValueError("bubblewrap ended before the box was there")
            data += piece
        return data


@contextmanager
def _pipe() -> Generator[_Pipe]:
    pipe = _Pipe()
    try:
        yield pipe
    finally:
        os.close(pipe.reader)
        if pipe.writer >= 0:
            pipe.close_writer()


@contextmanager
def _filter_file(content: bytes) -> Generator[int]:
    """A descriptor from which bubblewrap reads the system call filter."""
    fd = os.memfd_create("filter")
    try:
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)
