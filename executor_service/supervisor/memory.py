"""How often the kernel has killed something in this box for lack of memory."""

from __future__ import annotations

import os

_EVENTS_FILES = (
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/memory/memory.oom_control",
)


class OomCounter:
    """The kernel's count of out-of-memory kills, where the box sees its control group."""

    def __init__(self) -> None:
        self._fd: int | None = None
        for path in _EVENTS_FILES:
            try:
                self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            break

    def read(self) -> int:
        """The count since the box began; always 0 where nothing can be seen."""
        if self._fd is None:
            return 0
        for line in os.pread(self._fd, 4096, 0).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
        return 0
