"""What the host's process table says: who runs, and how much memory it took."""

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def with_marker(marker: str) -> list[int]:
    """The processes that have the marker in their command line, in whatever box they are."""
    return _holding("cmdline", marker)


def users_of(folder: Path) -> list[int]:
    """The processes that were started for the folder, and those of boxes that have some of it."""
    mounted = (pid for pid in _holding("mountinfo", str(folder)) if _is_in_a_box(pid))
    return sorted({*with_marker(str(folder)), *mounted} - {os.getpid()})


def end_users_of(folder: Path) -> None:
    """Kill what a failed test has left behind, boxes too: they end with their first process."""
    for pid in users_of(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
    """Wait for something that has no better way to be noticed."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {timeout_s} s"
        time.sleep(0.02)


class MemoryWatch:
    """How much the resident memory of processes has grown since now, at its highest."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._before: dict[int, int] = {}
        for pid in pids:
            (_PROC / str(pid) / "clear_refs").write_text("5")  # forgets the peak
            self._before[pid] = _status_kib(pid, "VmRSS")

    def growth_mib(self) -> float:
        """The growth of all together, each at its own peak."""
        grown = (_status_kib(pid, "VmHWM") - before for pid, before in self._before.items())
        return sum(grown) / 1024


def _status_kib(pid: int, name: str) -> int:
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise AssertionError(f"process {pid} has no {name}")


def _is_in_a_box(pid: int) -> bool:
    """Whether it sees other mounts than we do: those of the host are everybody's."""
    try:
        return (_PROC / str(pid) / "ns/mnt").readlink() != (_PROC / "self/ns/mnt").readlink()
    except OSError:
        return False  # it has just ended


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
