"""What the host's process table says: who runs."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

GONE_WITHIN_S = 10.0

_PROC = Path("/proc")


def with_marker(marker: str) -> list[int]:
    """The processes that have the marker in their command line, in whatever box they are."""
    return _holding("cmdline", marker)


def users_of(folder: Path) -> list[int]:
    """The processes that were started for the folder, and those of boxes that have some of it."""
    point = next(parent for parent in folder.parents if parent.is_mount())
    root = f"/{folder.relative_to(point)}/"
    in_boxes = (pid for pid in _holding("mountinfo", root) if _is_bound_in_a_box(pid, root))
    return sorted({*with_marker(f"{folder}/"), *in_boxes} - {os.getpid()})


def end_users_of(folder: Path) -> None:
    """Kill what a failed test has left behind, boxes too: they end with their first process."""
    for pid in users_of(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def check_nothing_left(folder: Path) -> None:
    """No process or box of the folder outlives those who stopped by more than a moment."""
    end = time.monotonic() + GONE_WITHIN_S
    while left := users_of(folder):
        shown = "\n".join(_command_line(pid) for pid in left)
        assert time.monotonic() < end, f"left over:\n{shown}"
        time.sleep(0.02)


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
    """Wait for something that has no better way to be noticed."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {timeout_s} s"
        time.sleep(0.02)


def _command_line(pid: int) -> str:
    with suppress(OSError):
        command = (_PROC / str(pid) / "cmdline").read_bytes()
        return f"{pid} {command.replace(bytes(1), b' ').decode(errors='replace')}"
    return f"{pid}, which has just ended"


def _is_bound_in_a_box(pid: int, root: str) -> bool:
    """Whether it sees something below the root that was bound for it, and not for the host.

    What is mounted on the host is in the list of every process.
    """
    process = _PROC / str(pid)
    try:
        if (process / "ns/mnt").readlink() == (_PROC / "self/ns/mnt").readlink():
            return False
        mounts = (process / "mountinfo").read_text().splitlines()
    except OSError:
        return False  # it has just ended
    return any(mount.split()[3].startswith(root) for mount in mounts)


def _holding(name: str, text: str) -> list[int]:
    found: list[int] = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            content = (entry / name).read_bytes()
        except OSError:
            continue  # it has just ended
        if text.encode() in content:
            found.append(int(entry.name))
    return found
