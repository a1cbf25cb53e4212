"""The command line of an Apptainer box, starting one, and a look at what came of it.

A box is one `exec` whose command, the supervisor, is process 1 of the box, and not an instance: the
first process of an instance is Apptainer's own, and the supervisor below it would be a process like
any other, that `kill -9 -1` in the box ends. The box lives as long as its supervisor, whoever has
started it; Apptainer's own process outside ends with it.

The executor's end of a box is a socket that the executor has made and the supervisor inherits.
Apptainer keeps the descriptors that were open when it was started, on purpose and in all its
modes. So there is no file that a command could replace by a socket of its own, no bridge that a
command could kill, and no program to run for every link, which must work when a box has
used up its processes too.

Everything here blocks.
"""

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from executor_service.backends.process_boxes import (
    BOX_USER,
    ENVIRONMENT,
    SUPERVISOR_IN_BOX,
    Order,
    ReadySocket,
    Started,
    memory_file,
    running,
    supervisor_arguments,
)
from executor_service.errors import BoxCreateFailed

_TIMEOUT_S = 60.0
"""Where the host cannot mount an image, every start unpacks it."""
PROGRAM_ENVIRONMENT = {"PATH": ENVIRONMENT["PATH"]}
"""What Apptainer itself sees, and no box."""
_ISOLATION_OPTIONS = (
    *("--containall", "--no-init", "--no-home", "--cleanenv", "--no-privs"),
    *("--net", "--network", "none", "--dns", "127.0.0.1", "--hostname", "sandbox"),
    # The host's devices in detail are nobody's business, nor are files that a site adds to boxes.
    *("--no-mount", "sys,bind-paths"),
)
_MEMORY = {"tmp": "/tmp", "var_tmp": "/var/tmp", "shm": "/dev/shm", "run": "/run"}  # noqa: S108
_WITH_MEMORY = f"""
place=$1; size=$2; shift 2
mount -t tmpfs -o "nosuid,nodev,mode=0755,nr_inodes=65536,size=$size" hermes "$place"
cd "$place"; mkdir -m 1777 {" ".join(_MEMORY)}; cd /
exec "$@"
"""
"""Apptainer has no option for the size; these mounts are seen by it alone and end with it."""
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
    """Whether the supervisor sets the limit of processes, for want of a control group."""
    memory: Path | None
    """Where root mounts the memory that a box has for files; else Apptainer gives it some."""


class Mount(Struct, frozen=True):
    """A file or folder of the host that a box sees."""

    source: Path
    target: str
    read_only: bool = True

    def __str__(self) -> str:
        parts = ["type=bind", f"source={self.source}", f"destination={self.target}"]
        if self.read_only:
            parts.append("ro")
        # It is read as a line of CSV.
        return ",".join('"' + part.replace('"', '""') + '"' for part in parts)


def command_in_box(
    parts: Parts, image: str, tmp_bytes: int, mounts: Iterable[Mount] = ()
) -> Iterator[str]:
    """A command line up to the program that is to run in the box."""
    if parts.memory is not None:
        yield from ("unshare", "--mount", "--propagation", "private")
        yield from ("/bin/sh", "-ec", _WITH_MEMORY, "sh", str(parts.memory), str(tmp_bytes))
        mounts = (*mounts, *(Mount(parts.memory / name, to, False) for name, to in _MEMORY.items()))
    # What it says at all is then the reason why it failed.
    yield from (parts.program, "--silent", "exec", *_ISOLATION_OPTIONS)
    if os.geteuid() == 0:
        yield from ("--security", f"uid:{BOX_USER}", "--security", f"gid:{BOX_USER}")
    for mount in mounts:
        yield from ("--mount", str(mount))
    yield image or parts.image
    # Exactly this, without what Apptainer tells the box of the host, and nothing secret.
    yield from ("/usr/bin/env", "-i", *(f"{name}={value}" for name, value in ENVIRONMENT.items()))


@contextmanager
def start_box(order: Order, parts: Parts) -> Generator[Started]:
    """A box that goes on after the block, in which it is to be remembered."""
    spec = order.spec
    mounts = [
        Mount(parts.supervisor, SUPERVISOR_IN_BOX),
        Mount(spec.workspace, "/workspace", read_only=False),
        *(Mount(group, str(shown_at)) for group, shown_at in order.shown_groups),
    ]
    with ReadySocket.open() as ready, memory_file("filter", parts.filter) as filter_fd:
        argv = [
            *command_in_box(parts, spec.image, spec.limits.tmp_bytes, mounts),
            *("python3", "-I", "-S", SUPERVISOR_IN_BOX),
            # Apptainer would answer EPERM to every call that a profile refuses. But C libraries
            # go on without clone3, whose flags no filter can read, only if the answer is ENOSYS.
            *("--filter-fd", str(filter_fd)),
            *supervisor_arguments(order, ready),
        ]
        if parts.limits_processes_itself:
            argv += ("--max-processes", str(spec.limits.pids))
        outside = PROGRAM_ENVIRONMENT
        with running(argv, outside, order, [filter_fd], ready, _TIMEOUT_S) as started:
            # Only now: Apptainer's own processes would need more than some boxes may have.
            for group in order.groups:
                (group / "cgroup.procs").write_text(str(started.first_pid))
            check_isolation(started.first_pid)
            yield started


def check_isolation(pid: int) -> None:
    """See from outside that a box is as it was asked for; BoxCreateFailed if not."""
    status = _status(pid)
    user = str(os.geteuid() or BOX_USER)
    holds = {
        "it runs as another user": status["Uid"].split() == [user] * 4,
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
