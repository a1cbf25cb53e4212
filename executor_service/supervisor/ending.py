"""Ending all processes of a box that has no walls, whoever of them started whom.

The supervisor adopts orphans, so everything that it has started is among its descendants. Should it
have been killed itself, what is left is known by the box's name in its environment.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Callable

from executor_service.supervisor.processes import (
    Identity,
    Process,
    read_table,
    send_signal,
)

BOX_VARIABLE = "HERMES_BOX"
"""In the environment of every command of such a box."""
_PAUSE_S = 0.005


def end_all(find: Callable[[], list[Process]], timeout_s: float) -> int:
    """Kill whatever find finds until it finds nothing; the number of survivors.

    They are stopped first, until a look finds no new one, so that none can start another between
    the look and the kill.
    """
    give_up_at = time.monotonic() + timeout_s
    stopped: set[Identity] = set()
    while True:
        living = find()
        if not living or time.monotonic() > give_up_at:
            return len(living)
        fresh = [process for process in living if process.identity not in stopped]
        for process in fresh:
            send_signal(process, signal.SIGSTOP)
            stopped.add(process.identity)
        if not fresh:
            for process in living:
                send_signal(process, signal.SIGKILL)
            time.sleep(_PAUSE_S)


def descendants_of(pid: int) -> list[Process]:
    """The living descendants of a process."""
    return [process for process in _family({pid}, read_table()) if process.pid != pid]


def members_of(box: str, supervisor: Process | None) -> list[Process]:
    """The living processes of a box, its supervisor not among them."""
    table = read_table()
    roots = {pid for pid in table if _is_of(box, pid)}
    if supervisor is not None:
        roots.add(supervisor.pid)
    not_meant = {os.getpid(), 0 if supervisor is None else supervisor.pid}
    return [process for process in _family(roots, table) if process.pid not in not_meant]


def _family(roots: set[int], table: dict[int, Process]) -> list[Process]:
    """The roots and all that descend from them, without those that have ended."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found = {pid: table[pid] for pid in roots if pid in table}
    todo = list(found.values())
    while todo:
        for child in children.get(todo.pop().pid, ()):
            if child.pid not in found:
                found[child.pid] = child
                todo.append(child)
    return [process for process in found.values() if process.state not in "ZX"]


def _is_of(box: str, pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return f"{BOX_VARIABLE}={box}".encode() in environ.read().split(b"\0")
    except OSError:
        return False
