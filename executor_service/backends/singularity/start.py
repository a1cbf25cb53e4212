"""Starts Apptainer boxes and checks them. All functions block.

A box is one `exec` whose command, the supervisor, is process 1 of the box. It is not an instance,
because there `kill -9 -1` in the box would end the supervisor. The box lives as long as its
supervisor; Apptainer's own process outside ends with it.

The executor reaches a box by a socket that it makes and the supervisor inherits, because Apptainer
keeps open descriptors in all its modes. So there is no file that a command could replace, no bridge
that it could kill, and no program to start for a link when the box has used up its processes.
"""

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from executor_service.backends.process_boxes import (
    ENVIRONMENT,
    SUPERVISOR_IN_BOX,
    HostUser,
    Order,
    ReadySocket,
    Started,
    memory_file,
    running,
    supervisor_arguments,
    user_of,
)
from executor_service.errors import BoxCreateFailed

_TIMEOUT_S = 60.0
"""If the host cannot mount an image, every start unpacks it."""
PROGRAM_ENVIRONMENT = {"PATH": ENVIRONMENT["PATH"]}
"""The environment of Apptainer itself."""
_ISOLATION_OPTIONS = (
    *("--containall", "--no-init", "--no-home", "--cleanenv", "--no-privs"),
    *("--net", "--network", "none", "--dns", "127.0.0.1", "--hostname", "sandbox"),
    # Hides the host's devices, and files that a site adds to all boxes.
    *("--no-mount", "sys,bind-paths"),
)
_MEMORY = {"tmp": "/tmp", "var_tmp": "/var/tmp", "shm": "/dev/shm", "run": "/run"}  # noqa: S108
_WITH_MEMORY = f"""
place=$1; size=$2; shift 2
mount -t tmpfs -o "nosuid,nodev,mode=0755,nr_inodes=65536,size=$size" hermes "$place"
cd "$place"; mkdir -m 1777 {" ".join(_MEMORY)}; cd /
exec "$@"
"""
"""Apptainer has no option for the size; only it sees these mounts, and they end with it."""
_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapAmb")


class Parts(Struct, frozen=True):
    """What every box of this executor is made from."""

    program: str
    """Apptainer or Singularity."""
    image: str
    """A SIF file or a folder with a root file system."""
    supervisor: Path
    filter: bytes
    limits_processes_itself: bool
    """Whether the supervisor limits processes, because there is no control group."""
    memory: Path | None
    """Where root mounts a box's file systems in memory; None leaves them to Apptainer."""


class Mount(Struct, frozen=True):
    """A file or folder of the host that a box sees."""

    source: Path
    target: str
    read_only: bool = True

    def __str__(self) -> str:
        parts = ["type=bind", f"source={self.source}", f"destination={self.target}"]
        if self.read_only:
            parts.append("ro")
        # Apptainer parses it as a line of CSV.
        return ",".join('"' + part.replace('"', '""') + '"' for part in parts)


def command_in_box(
    parts: Parts, image: str, tmp_bytes: int, user: HostUser | None, mounts: Iterable[Mount] = ()
) -> Iterator[str]:
    """Yield the command line up to the program that runs in the box."""
    if parts.memory is not None:
        yield from ("unshare", "--mount", "--propagation", "private")
        yield from ("/bin/sh", "-ec", _WITH_MEMORY, "sh", str(parts.memory), str(tmp_bytes))
        mounts = (*mounts, *(Mount(parts.memory / name, to, False) for name, to in _MEMORY.items()))
    # With --silent, any output is the reason of a failure.
    yield from (parts.program, "--silent", "exec", *_ISOLATION_OPTIONS)
    if user is not None:
        yield from ("--security", f"uid:{user.uid}", "--security", f"gid:{user.gid}")
    for mount in mounts:
        yield from ("--mount", str(mount))
    yield image or parts.image
    # Exactly this environment, without secrets and Apptainer's variables about the host.
    yield from ("/usr/bin/env", "-i", *(f"{name}={value}" for name, value in ENVIRONMENT.items()))


@contextmanager
def start_box(order: Order, parts: Parts) -> Generator[Started]:
    """Start a box, which lives on after the block; record it in the block."""
    spec = order.spec
    user = user_of(spec)
    if user is not None and user.uid == 0:
        raise BoxCreateFailed(
            f"{spec.workspace} belongs to root, and this backend runs no commands as root: choose "
            "another user's folder, or the backend docker or bubblewrap"
        )
    mounts = [
        Mount(parts.supervisor, SUPERVISOR_IN_BOX),
        Mount(spec.workspace, "/workspace", read_only=False),
        *(Mount(group, str(shown_at)) for group, shown_at in order.shown_groups),
    ]
    with ReadySocket.open() as ready, memory_file("filter", parts.filter) as filter_fd:
        argv = [
            *command_in_box(parts, spec.image, spec.limits.tmp_bytes, user, mounts),
            *("python3", "-I", "-S", SUPERVISOR_IN_BOX),
            # Apptainer would answer EPERM to every refused call. But C libraries do without clone3,
            # whose flags no filter can read, only if the answer is ENOSYS.
            *("--filter-fd", str(filter_fd)),
            *supervisor_arguments(order, ready),
        ]
        if parts.limits_processes_itself:
            argv += ("--max-processes", str(spec.limits.pids))
        outside = PROGRAM_ENVIRONMENT
        with running(argv, outside, order, [filter_fd], ready, _TIMEOUT_S) as started:
            # Only now, because Apptainer's own processes need more than some boxes may have.
            for group in order.groups:
                (group / "cgroup.procs").write_text(str(started.first_pid))
            check_isolation(started.first_pid, os.geteuid() if user is None else user.uid)
            yield started


def check_isolation(pid: int, uid: int) -> None:
    """Check a box's isolation from outside; fails with BoxCreateFailed."""
    status = _status(pid)
    holds = {
        "it runs as another user": status["Uid"].split() == [str(uid)] * 4,
        "it has privileges": all(int(status[name], 16) == 0 for name in _CAPABILITIES),
        "it can gain privileges": status["NoNewPrivs"] == "1",
        "its system calls are not filtered": status["Seccomp"] == "2",
        "it has no process table of its own": status["NSpid"].split()[-1] == "1",
        "it has a network": _interfaces(pid) <= {"lo"},
    }
    broken = [name for name, is_so in holds.items() if not is_so]
    if broken:
        raise BoxCreateFailed(f"the box is not as it must be: {', '.join(broken)}")


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _interfaces(pid: int) -> set[str]:
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines}
