"""Starting one bubblewrap box and waiting until its supervisor is there. Everything here blocks.

An executor may die at any moment of this, and nobody could end a box that it has not remembered.
So the supervisor says that it is ready and then waits to hear that the box is remembered: without
that it ends. What bubblewrap says goes into a file, because it leaves its first process behind,
waiting for ever, when nobody listens.
"""

import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from executor_service.backends import bubblewrap_launch
from executor_service.backends.base import MIB, BoxSpec
from executor_service.backends.bubblewrap_host import BOX_USER, Argument, Host, root_arguments
from executor_service.errors import BoxCreateFailed
from executor_service.supervisor.frames import REMEMBERED

_TIMEOUT_S = 15.0
_INFO_BYTES = 4096
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


@contextmanager
def start_box(
    spec: BoxSpec,
    parts: Parts,
    secret: str,
    groups: ControlGroups,
    listener: socket.socket,
    errors: int,
) -> Generator[Started]:
    """A box that goes on after the block, in which it is to be remembered.

    No process is left behind when that fails.
    """
    stage: list[Path] = []
    ours, theirs = socket.socketpair()
    with ours, theirs, _file("info") as info, _file("filter", parts.filter) as filter_fd:
        inherited = {
            "info": info,
            "ready": theirs.fileno(),
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
            theirs.close()
            _await_ready(ours)
            yield Started(monitor, json.loads(os.pread(info, _INFO_BYTES, 0))["child-pid"])
            ours.send(REMEMBERED)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(monitor.pid, 9)
            monitor.wait()
            raise


def _await_ready(supervisor: socket.socket) -> None:
    supervisor.settimeout(_TIMEOUT_S)
    try:
        said = supervisor.recv(1)
    except TimeoutError:
        raise BoxCreateFailed(f"no box within {_TIMEOUT_S:.0f} s") from None
    if not said:
        raise BoxCreateFailed("bubblewrap ended before the box was there")


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


@contextmanager
def _file(name: str, content: bytes = b"") -> Generator[int]:
    """A descriptor of a file in memory."""
    fd = os.memfd_create(name)
    try:
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)
