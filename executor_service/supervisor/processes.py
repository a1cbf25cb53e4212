"""The table of processes, and how to end some of them reliably."""

from __future__ import annotations

import os
import time

from executor_service.supervisor.light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Tuple

    Identity = Tuple[int, int]
    """Process id and start time, which together are never reused."""

MARKER_VARIABLE = "HERMES_EXEC"
_MAX_ENVIRON_BYTES = 4 * 1024 * 1024
_STOP_ROUNDS = 8
_CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BOX_VARIABLE = "HERMES_BOX"
"""Set for every command of a box that shares its machine."""
_PAUSE_S = 0.005


class Process:
    """One line of the process table, from the third field of /proc/PID/stat on."""

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid = pid
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.started_ticks = int(fields[19])
        self.identity: Identity = (pid, self.started_ticks)


def now_ticks() -> int:
    """Return the current time in the unit of Process.started_ticks."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _CLOCK_TICKS_PER_S)


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def read_process(pid: int) -> Process | None:
    """Return a process; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            line = stat.read(4096)
    except OSError:
        return None
    return Process(pid, line[line.rfind(b")") + 2 :].split())


def read_table() -> dict[int, Process]:
    """Return all processes of the box."""
    table: dict[int, Process] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = read_process(int(name))
            if process is not None:
                table[process.pid] = process
    return table


def send_signal(process: Process, number: int) -> None:
    """Signal exactly this process, never a later one with the same id."""
    fd = _open_pidfd(process.pid)
    try:
        current = read_process(process.pid)
        if current is None or current.identity != process.identity:
            return
        if fd is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(fd, number)
    except OSError:
        pass  # ended meanwhile, or not ours to signal: the next look will tell
    finally:
        if fd is not None:
            os.close(fd)


def _open_pidfd(pid: int) -> int | None:
    """Return a pidfd; None if the process ended, or if Python or the kernel has no pidfds."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def children_of(table: dict[int, Process]) -> dict[int, list[Process]]:
    """Group the processes of a table by their parents."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    return children


def with_descendants(roots: list[Process], children: dict[int, list[Process]]) -> list[Process]:
    """Return these processes and all their descendants."""
    family = list({root.pid: root for root in roots}.values())
    known = {process.pid for process in family}
    for process in family:
        fresh = [child for child in children.get(process.pid, ()) if child.pid not in known]
        known.update(child.pid for child in fresh)
        family += fresh
    return family


def marker_of(pid: int) -> str | None:
    """Return the marker in a process's environment; None without one or if it is hidden."""
    prefix = MARKER_VARIABLE.encode() + b"="
    for variable in _environment_of(pid):
        if variable.startswith(prefix):
            return variable[len(prefix) :].decode("ascii", "replace")
    return None


def stop_all(find: Callable[[], list[Process]]) -> list[Process]:
    """Stop what find returns until it finds nothing new, so that none can start another process
    before it is killed; return what was found last."""
    stopped: set[Identity] = set()
    for _ in range(_STOP_ROUNDS):
        living = find()
        fresh = [process for process in living if process.identity not in stopped]
        if not fresh:
            return living
        for process in fresh:
            send_signal(process, signal.SIGSTOP)
            stopped.add(process.identity)
    return find()


def end_all(find: Callable[[], list[Process]], timeout_s: float) -> int:
    """Kill what find returns until it finds nothing; return the number of survivors."""
    give_up_at = time.monotonic() + timeout_s
    while True:
        living = stop_all(find)
        if not living or time.monotonic() > give_up_at:
            return len(living)
        for process in living:
            send_signal(process, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def descendants_of(pid: int) -> list[Process]:
    """Return the living descendants of a process."""
    return [process for process in _family({pid}, read_table()) if process.pid != pid]


def members_of(box: str, supervisor: Process | None) -> list[Process]:
    """Return the living processes of a box except its supervisor."""
    table = read_table()
    variable = f"{BOX_VARIABLE}={box}".encode()
    roots = {pid for pid in table if variable in _environment_of(pid)}
    if supervisor is not None:
        roots.add(supervisor.pid)
    not_meant = {os.getpid(), 0 if supervisor is None else supervisor.pid}
    return [process for process in _family(roots, table) if process.pid not in not_meant]


def _family(roots: set[int], table: dict[int, Process]) -> list[Process]:
    family = with_descendants([table[pid] for pid in roots if pid in table], children_of(table))
    return [process for process in family if process.state not in "ZX"]


def _environment_of(pid: int) -> list[bytes]:
    """Return a process's variables; none if they are hidden."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as environ:
            return environ.read(_MAX_ENVIRON_BYTES).split(b"\0")
    except OSError:
        return []
