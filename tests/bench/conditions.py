"""What the figures depend on besides Hermes: the machine, its disk, and who else uses it."""

import os
import platform
from pathlib import Path
from time import perf_counter

from tests.bench.figures import Missing

_MOUNTS = Path("/proc/self/mounts")
_ROUNDS = 200_000
_TRIES = 5


class Conditions:
    """How busy the machine was, and how fast Python ran on it, between the figures."""

    def __init__(self, folder: Path) -> None:
        if (kind := _filesystem(folder)) in ("tmpfs", "ramfs"):
            raise Missing(f"{folder} is in memory ({kind}); name a folder on disk with --folder")
        self._disk = kind
        self._loads: list[float] = []
        self._paces_ms: list[float] = []

    def look(self) -> None:
        """Take note of how things are now."""
        self._loads.append(os.getloadavg()[0])
        self._paces_ms.append(_pace_ms())

    def lines(self) -> list[str]:
        """Return what a reader has to know."""
        processors = os.cpu_count() or 1
        machine = f"{platform.system()} {platform.release()}, {processors} processors"
        pace = f"{min(self._paces_ms):.0f} to {max(self._paces_ms):.0f} ms"
        lines = [
            f"Python {platform.python_version()}, {machine}, homes on {self._disk}",
            f"load {self._loads[0]:.1f} before and {self._loads[-1]:.1f} after",
            f"the same loop of Python took {pace} between the figures",
        ]
        if self._loads[0] > processors / 2:
            lines.append("The machine was busy with other work: Hermes is no slower than this.")
        return lines


def _pace_ms() -> float:
    """Return the best time of a loop that does nothing but compute."""
    times_ms: list[float] = []
    for _ in range(_TRIES):
        begun = perf_counter()
        sum(number * number for number in range(_ROUNDS))
        times_ms.append((perf_counter() - begun) * 1_000)
    return min(times_ms)


def _filesystem(folder: Path) -> str:
    """Return the kind of file system that a folder is on."""
    if not _MOUNTS.exists():
        return "an unknown file system"
    mounts = [line.split()[1:3] for line in _MOUNTS.read_text(encoding="utf-8").splitlines()]
    around = [(place, kind) for place, kind in mounts if folder.resolve().is_relative_to(place)]
    return max(around, key=lambda mount: len(mount[0]))[1]
