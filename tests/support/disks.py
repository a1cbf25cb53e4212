"""Small disks, which can be full."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.requirements import require


@contextmanager
def small_disk(folder: Path, mib: int) -> Generator[Path]:
    """A file system of so many MiB, in memory, in a new folder; skipped where nobody may mount."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0755", "none", folder]
    mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    require("mount", mounted, "only root may mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def filled(disk: Path) -> Generator[None]:
    """Leave no byte free on a disk for the time of the block."""
    filler = disk / "filler"
    try:
        with filler.open("wb") as file:
            while (free := os.statvfs(disk)).f_bavail:
                with suppress(OSError):  # others write meanwhile
                    size = os.fstat(file.fileno()).st_size
                    os.posix_fallocate(file.fileno(), size, free.f_bavail * free.f_frsize)
        yield
    finally:
        filler.unlink()
