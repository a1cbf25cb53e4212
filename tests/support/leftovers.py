"""Ends what a run of tests leaves behind, also after Ctrl-C or the crash of a worker.

Each run has a folder of its own for temporary files. At its end, every process that descends from
the run is killed, and every container whose files are in that folder is removed.
"""

import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import DockerException

from executor_service.backends.base import OWNER
from executor_service.backends.docker.supervisor_volume import HOLDER, ROLE
from tests.support.docker_engine import engine_answers

_SET_CHILD_SUBREAPER = 36
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 << 30
_KEPT_S = 24 * 3600.0
"""How long the files of failed tests are kept."""


class Leftovers:
    """The folder of a run, and the end of what the run has started."""

    def __init__(self) -> None:
        for place in (_MEMORY, Path(tempfile.gettempdir())):
            _remove_old(place)
        self.folder = Path(tempfile.mkdtemp(prefix="ht-", dir=_place()))
        # Short, as paths of sockets may have 107 bytes; open to PostgreSQL's user.
        self.folder.chmod(0o711)
        self._began_at = time.time()
        self._failed = False
        os.environ["TMPDIR"] = str(self.folder)
        tempfile.tempdir = str(self.folder)
        if sys.platform == "linux":
            # Orphans of the run become children of this process, so it can find them.
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notice a failure, whose files are kept."""
        self._failed |= report.failed

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Clean up."""
        _kill_descendants()
        _remove_containers(str(self.folder), self._began_at)
        if self._failed:
            sys.stderr.write(f"The files of failed tests are in {self.folder}.\n")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def _place() -> Path:
    """Return TMPDIR, else memory where there is room, as tests then wait for no disk."""
    if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK):
        memory = os.statvfs(_MEMORY)
        runs_programs = not memory.f_flag & os.ST_NOEXEC
        if runs_programs and memory.f_bavail * memory.f_frsize >= _ROOM_BYTES:
            return _MEMORY
    return Path(tempfile.gettempdir())


def _remove_old(place: Path) -> None:
    for folder in place.glob("ht-*"):
        with suppress(FileNotFoundError):  # another run removes it
            about = folder.stat()
            if about.st_uid == os.getuid() and about.st_mtime < time.time() - _KEPT_S:
                shutil.rmtree(folder, ignore_errors=True)


def _kill_descendants() -> None:
    while pids := _descendants(os.getpid()):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, 0)[0]:
                pass


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _remove_containers(folder: str, began_at: float) -> None:
    if not engine_answers()[0]:
        return

    def is_ours(labels: dict[str, str]) -> bool:
        return any(value.startswith(folder) for value in labels.values())

    with suppress(DockerException), closing(docker.from_env(timeout=30)) as client:
        api: Any = client.api
        for container in api.containers(all=True, filters={"label": OWNER}):
            if is_ours(container["Labels"]):
                api.remove_container(container["Id"], force=True, v=True)
        is_used = bool(api.containers(all=True, filters={"label": OWNER}))
        for holder in api.containers(all=True, filters={"label": f"{ROLE}={HOLDER}"}):
            if holder["Created"] >= began_at and not is_used:
                api.remove_container(holder["Id"], force=True)
        for volume in api.volumes(filters={"label": OWNER})["Volumes"] or ():
            if is_ours(volume["Labels"]):
                api.remove_volume(volume["Name"], force=True)
