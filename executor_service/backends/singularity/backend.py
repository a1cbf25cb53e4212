"""Boxes made by Apptainer or Singularity: an image in namespaces of the host's own kernel.

This backend is for machines that allow no container engine, such as those of a computing centre. A
box sees its read-only image, its workspace and file systems in memory. It needs no daemon and lives
on when the executor dies.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from executor_service.backends.base import MIB, Capabilities, Enforcement, Limits, LimitSupport
from executor_service.backends.bubblewrap.host import counts_processes_per_namespace
from executor_service.backends.cgroups import Cgroups
from executor_service.backends.process_backend import ProcessBackend, system_call_filter
from executor_service.backends.process_boxes import (
    ENVIRONMENT,
    PROGRAM_IN_BOX,
    SUPERVISOR_IN_BOX,
    HostUser,
    Order,
    ReadySocket,
    Started,
    memory_file,
    running,
    spawn,
    supervisor_arguments,
    user_of,
    usual_user,
)
from executor_service.backends.supervisor_zipapp import install_supervisor
from executor_service.config import SingularityConfig
from executor_service.errors import BackendUnavailable, BoxCreateFailed
from executor_service.records.sandboxes import Isolation

_PROGRAMS = ("apptainer", "singularity")
_OLDEST_PYTHON = (3, 8)
_VERSION_DEADLINE_S = 10.0
_LOOK_DEADLINE_S = 60.0
_LOOK = """
import json, os, sys
try:
    tmp = os.statvfs("/tmp")
    size = tmp.f_blocks * tmp.f_frsize if os.access("/tmp", os.W_OK) else 0
except OSError:
    size = 0
print(json.dumps({"python": sys.version_info[:2], "tmp_bytes": size,
    "network": os.readlink("/proc/self/ns/net"), "users": os.readlink("/proc/self/ns/user")}))
"""


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


class ProbeResult(Struct, frozen=True):
    """What works on this machine."""

    version: str
    tmp_bytes: int
    has_own_users: bool
    """Whether boxes have a user namespace of their own, as with an executor that is not root."""

    @property
    def holds_tmp(self) -> bool:
        """Whether the size of a box's temporary files is enforced."""
        return 0 < self.tmp_bytes <= Limits().tmp_bytes

    def describe(self, limits: LimitSupport) -> str:
        """Describe in one line how boxes run here, with hints for operators."""
        held = {"memory": limits.memory, "cpu": limits.cpu, "pids": limits.pids}
        unlimited = [name for name, how in held.items() if how is Enforcement.NONE]
        notes = [self.version]
        if self.tmp_bytes < Limits().tmp_bytes:
            size = f"{self.tmp_bytes // MIB} MiB for temporary files in a box"
            notes.append(f"{size} (`sessiondir max size` in its configuration)")
        if unlimited:
            notes.append(f"no control group limits {', '.join(unlimited)} here")
        return "; ".join(notes)


def find_program(name: str) -> str:
    """Path of Apptainer or Singularity; BackendUnavailable if there is none."""
    names = (name,) if name else _PROGRAMS
    for one in names:
        path = shutil.which(one)
        if path is not None:
            return path
    raise BackendUnavailable(
        f"there is no program {' or '.join(names)}: install Apptainer, or name it with "
        "executor.singularity.program"
    )


def look_at(parts: Parts) -> ProbeResult:
    """Run the image's Python in a box once; fails with BackendUnavailable."""
    image = parts.image
    if not image:
        raise BackendUnavailable(
            "no image is named: set executor.singularity.image to a SIF file or a folder"
        )
    if not Path(image).is_absolute() or not Path(image).exists():
        raise BackendUnavailable(
            f"executor.singularity.image: there is no {image}; name a SIF file or a folder with a "
            "root file system by its whole path"
        )
    version = _run([parts.program, "--version"], _VERSION_DEADLINE_S)
    look = command_in_box(parts, Limits().tmp_bytes, usual_user())
    seen = json.loads(_run([*look, "python3", "-I", "-S", "-c", _LOOK], _LOOK_DEADLINE_S))
    if tuple(seen["python"]) < _OLDEST_PYTHON:
        raise BackendUnavailable(
            f"the image {image} has Python {'.'.join(map(str, seen['python']))}, and boxes need "
            "3.8 or newer as python3"
        )
    if seen["network"] == str(Path("/proc/self/ns/net").readlink()):
        raise BackendUnavailable(f"{parts.program} lets boxes into the network of this machine")
    own_users = seen["users"] != str(Path("/proc/self/ns/user").readlink())
    return ProbeResult(version.strip(), seen["tmp_bytes"], own_users)


def _run(argv: list[str], deadline_s: float) -> str:
    name = Path(argv[0]).name
    try:
        done = subprocess.run(
            argv,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=deadline_s,
            cwd="/",
            env=PROGRAM_ENVIRONMENT,
        )
    except subprocess.TimeoutExpired as error:
        raise BackendUnavailable(f"{name} does not answer within {deadline_s:.0f} s") from error
    except OSError as error:
        raise BackendUnavailable(f"{name} cannot be run: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise BackendUnavailable(f"{name} cannot make a box here: {lines[-1]}")
    return done.stdout.decode(errors="replace")


class SingularityBackend(ProcessBackend[Parts]):
    """Makes boxes with Apptainer."""

    name = "singularity"

    def __init__(
        self, owner: str, folder: Path, supervisor: bytes, options: SingularityConfig
    ) -> None:
        super().__init__(owner, folder, supervisor)
        self._options = options
        self._found: ProbeResult | None = None

    def _make_parts(self, cgroups: Cgroups) -> Parts:
        memory = self._folder / "memory"
        memory.mkdir(exist_ok=True)
        parts = Parts(
            program=find_program(self._options.program),
            image=self._options.image,
            supervisor=install_supervisor(self._supervisor, self._folder, SUPERVISOR_IN_BOX),
            filter=system_call_filter(),
            memory=memory if os.geteuid() == 0 else None,
            limits_processes_itself=False,
        )
        self._found = self._found or look_at(parts)
        may_count = self._found.has_own_users and counts_processes_per_namespace()
        itself = may_count and "pids" not in cgroups.controllers
        return replace(parts, limits_processes_itself=itself)

    def _start(self, order: Order, parts: Parts) -> AbstractContextManager[Started]:
        return start_box(order, parts)

    def _why(self, said: str) -> str:
        return f"Apptainer cannot make a box here: {said}"

    def _capabilities(self, parts: Parts | None, reason: str) -> Capabilities:
        held, found = self._cgroups.enforcement, self._found
        limits = LimitSupport()
        if parts is not None and found is not None:
            pids = Enforcement.ENFORCED if parts.limits_processes_itself else held("pids")
            tmp = Enforcement.ENFORCED if found.holds_tmp else Enforcement.NONE
            limits = LimitSupport(held("memory"), held("cpu"), pids, tmp)
            reason = found.describe(limits)
        return Capabilities(self.name, parts is not None, reason, Isolation.NAMESPACE, limits)


def command_in_box(
    parts: Parts, tmp_bytes: int, user: HostUser | None, mounts: Iterable[Mount] = ()
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
    yield parts.image
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
            *command_in_box(parts, spec.limits.tmp_bytes, user, mounts),
            *("python3", "-I", "-S", PROGRAM_IN_BOX),
            # Apptainer would answer EPERM to every refused call. But C libraries do without clone3,
            # whose flags no filter can read, only if the answer is ENOSYS.
            *("--filter-fd", str(filter_fd)),
            *supervisor_arguments(order, order.listener.fileno(), ready.fd),
        ]
        if parts.limits_processes_itself:
            argv += ("--max-processes", str(spec.limits.pids))
        pid = spawn(argv, PROGRAM_ENVIRONMENT, order, [filter_fd, ready.fd])
        with running(pid, ready, _TIMEOUT_S) as started:
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
