"""Boxes made by bubblewrap: namespaces of the host's own kernel, over the host's read-only /usr.

A box sees /usr, a few files of /etc, its workspace and file systems in memory. It has no home
folder, no network and only harmless devices. Its processes run as an ordinary user without
privileges, behind the sandboxes' system call filter. A box needs no daemon and lives on when the
executor dies.

bubblewrap writes its messages to a file: if nobody reads them, its first process never ends.
"""

import asyncio
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from executor_service.backends.base import (
    MIB,
    SKILLS,
    SKILLS_BYTES,
    Capabilities,
    Enforcement,
    LimitSupport,
)
from executor_service.backends.bubblewrap.host import (
    Argument,
    Host,
    Memory,
    Staged,
    counts_processes_per_namespace,
    find_host,
    hidden_from_root,
    install_etc,
    root_arguments,
    why_refused,
)
from executor_service.backends.bubblewrap.launch import FIRST_FD
from executor_service.backends.bubblewrap.launcher import Launcher
from executor_service.backends.cgroups import Cgroups
from executor_service.backends.process_backend import ProcessBackend, system_call_filter
from executor_service.backends.process_boxes import (
    BOX_USER,
    ENVIRONMENT,
    PROGRAM_IN_BOX,
    SUPERVISOR_IN_BOX,
    Order,
    ReadySocket,
    Started,
    memory_file,
    running,
    supervisor_arguments,
    user_of,
)
from executor_service.backends.supervisor_zipapp import install_supervisor
from executor_service.records.sandboxes import Isolation

_TIMEOUT_S = 15.0
_TMP, _VAR_TMP, _SHM = "/tmp", "/var/tmp", "/dev/shm"  # noqa: S108 - the box's own
_RUN_BYTES = 16 * MIB
_SHM_BYTES = 64 * MIB
_NAMESPACES = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--as-pid-1", "--new-session"),
    *("--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv"),
    *("--uid", str(BOX_USER), "--gid", str(BOX_USER)),
)


class Parts(Struct, frozen=True):
    """What every box of this executor is made from."""

    host: Host
    supervisor: Path
    folder: Path
    """Where the backend keeps its files."""
    filter: bytes
    limits_processes_itself: bool
    """Whether the supervisor limits processes, because there is no control group."""


def _arguments(order: Order, parts: Parts, stage: list[Staged]) -> Iterator[Argument]:
    def staged(path: Path) -> Argument:
        stage.append(path)
        return (len(stage) - 1, "")

    program = parts.host.bubblewrap
    stage.append(program.folder)
    yield (len(stage) - 1, f"/{program.name}")
    yield from _NAMESPACES
    yield from root_arguments(parts.host, stage, install_etc(parts.folder))
    yield from ("--ro-bind", staged(parts.supervisor), SUPERVISOR_IN_BOX)
    yield from ("--proc", "/proc", "--dev", "/dev")
    if (user := user_of(order.spec)) is not None and user.uid == 0:
        yield from hidden_from_root()
    yield from _in_memory(_SHM, Memory(_SHM_BYTES, "1777"), stage)
    yield from ("--remount-ro", "/dev")
    yield from _in_memory(_TMP, Memory(order.spec.limits.tmp_bytes, "1777"), stage)
    yield from _in_memory("/run", Memory(_RUN_BYTES, "0755"), stage)
    yield from _in_memory(SKILLS, Memory(SKILLS_BYTES, "0755"), stage)
    yield from ("--symlink", "../tmp", _VAR_TMP)
    for group, shown_at in order.shown_groups:
        yield from ("--ro-bind", str(group), str(shown_at))
    yield from ("--bind", staged(order.spec.workspace), "/workspace")
    # Last of all: bubblewrap makes the places for the mounts in it.
    yield from ("--remount-ro", "/", "--chdir", "/workspace")
    for name, value in ENVIRONMENT.items():
        yield from ("--setenv", name, value)


def _in_memory(place: str, memory: Memory, stage: list[Staged]) -> Iterator[Argument]:
    """Only root can limit the number of files; otherwise the memory limit must do."""
    if os.geteuid() == 0:
        stage.append(memory)
        yield from ("--bind", (len(stage) - 1, ""), place)
    else:
        yield from ("--perms", memory.mode, "--size", str(memory.size), "--tmpfs", place)


def _supervisor_arguments(order: Order, parts: Parts) -> Iterator[str]:
    yield from ("--", parts.host.python, "-I", "-S", PROGRAM_IN_BOX)
    yield from supervisor_arguments(order, FIRST_FD + 1, FIRST_FD + 2)
    if parts.limits_processes_itself:
        yield from ("--max-processes", str(order.spec.limits.pids))


class BubblewrapBackend(ProcessBackend[Parts]):
    """Makes boxes with bubblewrap."""

    name = "bubblewrap"
    extra_pids = 1

    def __init__(
        self, owner: str, folder: Path, supervisor: bytes, find: Callable[[], Host] = find_host
    ) -> None:
        super().__init__(owner, folder, supervisor)
        self._find = find
        self._launcher = Launcher()

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self._launcher.close)

    def _make_parts(self, cgroups: Cgroups) -> Parts:
        filter_ = system_call_filter()
        return Parts(
            host=self._find(),
            supervisor=install_supervisor(self._supervisor, self._folder, SUPERVISOR_IN_BOX),
            folder=self._folder,
            filter=filter_,
            limits_processes_itself="pids" not in cgroups.controllers
            and counts_processes_per_namespace(),
        )

    @contextmanager
    def _start(self, order: Order, parts: Parts) -> Generator[Started]:
        stage: list[Staged] = []
        with ReadySocket.open() as ready, memory_file("filter", parts.filter) as filter_fd:
            user = user_of(order.spec)
            argv: list[Argument] = list(_arguments(order, parts, stage))
            argv += ("--seccomp", str(FIRST_FD))
            argv += _supervisor_arguments(order, parts)
            request = {
                "control_groups": [str(group) for group in order.groups],
                "stage": [asdict(one) if isinstance(one, Memory) else str(one) for one in stage],
                "user": None if user is None else tuple(user),
                "argv": argv,
            }
            fds = (order.errors, filter_fd, order.listener.fileno(), ready.fd)
            with running(self._launcher.start(request, fds), ready, _TIMEOUT_S) as started:
                yield started

    def _why(self, said: str) -> str:
        return why_refused(said)

    def _capabilities(self, parts: Parts | None, reason: str) -> Capabilities:
        held = self._cgroups.enforcement
        unlimited = [name for name in ("memory", "cpu") if name not in self._cgroups.controllers]
        but = f"; no control group limits {' and '.join(unlimited)} here" if unlimited else ""
        by_supervisor = parts is not None and parts.limits_processes_itself
        return Capabilities(
            name=self.name,
            available=parts is not None,
            reason=reason or f"over the host's read-only /usr{but}",
            isolation=Isolation.NAMESPACE,
            limits=LimitSupport(
                memory=held("memory"),
                cpu=held("cpu"),
                pids=Enforcement.ENFORCED if by_supervisor else held("pids"),
                tmp=Enforcement.ENFORCED,
            ),
        )
