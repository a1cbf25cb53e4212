"""Starting one bubblewrap box and waiting until its supervisor is there. Everything here blocks.

What bubblewrap says goes into a file, because it leaves its first process behind, waiting for ever,
when nobody listens.
"""

import json
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from executor_service.backends.base import MIB, SKILLS, SKILLS_BYTES
from executor_service.backends.bubblewrap import launch as bubblewrap_launch
from executor_service.backends.bubblewrap.host import Argument, Host, Memory, Staged, root_arguments
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
    own_etc: Path
    filter: bytes
    limits_processes_itself: bool
    """Whether the supervisor sets the limit of processes, for want of a control group."""


@contextmanager
def start_box(order: Order, parts: Parts) -> Generator[Started]:
    """A box that goes on after the block, in which it is to be remembered."""
    stage: list[Staged] = []
    with ReadySocket.open() as ready, memory_file("filter", parts.filter) as filter_fd:
        argv: list[Argument] = list(_arguments(order, parts, stage))
        argv += ("--seccomp", str(filter_fd))
        argv += _supervisor_arguments(order, parts, ready)
        request = {
            "control_groups": [str(group) for group in order.groups],
            "stage": [asdict(one) if isinstance(one, Memory) else str(one) for one in stage],
            "user": BOX_USER if _is_root() else None,
            "argv": argv,
        }
        launch = [sys.executable, "-I", "-S", bubblewrap_launch.__file__, json.dumps(request)]
        with running(launch, {}, order, [filter_fd], ready, _TIMEOUT_S) as started:
            yield started


def _arguments(order: Order, parts: Parts, stage: list[Staged]) -> Iterator[Argument]:
    """bubblewrap's own arguments, but for its filter."""

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
    """Only root can limit the number of files; for others the limit of memory has to do."""
    if _is_root():
        stage.append(memory)
        yield from ("--bind", (len(stage) - 1, ""), place)
    else:
        yield from ("--perms", memory.mode, "--size", str(memory.size), "--tmpfs", place)


def _is_root() -> bool:
    return os.geteuid() == 0


def _supervisor_arguments(order: Order, parts: Parts, ready: ReadySocket) -> Iterator[str]:
    yield from ("--", parts.host.python, "-I", "-S", SUPERVISOR_IN_BOX)
    yield from supervisor_arguments(order, ready)
    if parts.limits_processes_itself:
        yield from ("--max-processes", str(order.spec.limits.pids))
