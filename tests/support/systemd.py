"""A real manager of systemd for one user, as whom the tests run without being another user.

Who runs the tests stays the owner of all that they made, whatever the name: a user namespace gives
them another one, since root has services of the whole machine. Systemd believes that the machine
was started with it where /run says so, which only the manager sees.
"""

import os
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from services.ids import new_id
from tests.e2e.processes import wait_until
from tests.support.requirements import require

MANAGER = Path("/lib/systemd/systemd")
AS_USER = ("unshare", "--user", "--map-user=1", "--map-group=1")
"""Debian's `daemon`, which every machine has."""
_HIERARCHIES = tuple(Path("/sys/fs/cgroup", name) for name in ("systemd", "unified", "."))
_START = """
for group in $1; do echo $$ >"$group/cgroup.procs" || exit; done
shift
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec "$@"
"""


@contextmanager
def user_manager(folder: Path) -> Generator[Mapping[str, str]]:
    """The environment in which `systemctl --user` reaches a manager that runs for the block."""
    programs = MANAGER.exists() and shutil.which("systemctl") is not None
    require("systemd", programs and os.geteuid() == 0, "needs systemd, and root for groups of it")
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "XDG_RUNTIME_DIR": str(runtime),
    }
    groups = _make_groups()
    words = " ".join(map(str, groups))
    argv = ("unshare", "--mount", "sh", "-c", _START, "sh", words, *AS_USER, MANAGER, "--user")
    with (folder / "manager.log").open("wb") as log:
        manager = subprocess.Popen(argv, env=environ, stdout=log, stderr=log)
    try:
        _wait_ready(manager, environ, folder / "manager.log")
        yield environ
        subprocess.run([*AS_USER, "systemctl", "--user", "exit"], env=environ, check=True)
        manager.wait(60)
    finally:
        manager.kill()
        manager.wait()
        for group in groups:
            _remove(group)


def _wait_ready(manager: "subprocess.Popen[bytes]", environ: Mapping[str, str], log: Path) -> None:
    argv = [*AS_USER, "systemctl", "--user", "show", "--property=SystemState"]

    def is_ready() -> bool:
        assert manager.poll() is None, log.read_text()
        said = subprocess.run(argv, env=environ, check=False, capture_output=True, text=True)
        return said.stdout.strip() in ("SystemState=running", "SystemState=degraded")

    wait_until(is_ready, "the manager is ready", 60)


def _make_groups() -> Sequence[Path]:
    """One in each hierarchy in which systemd keeps its services."""
    name = new_id("hermes-test").lower()
    homes = [place for place in _HIERARCHIES if (place / "cgroup.procs").exists()]
    for place in homes:
        (place / name).mkdir()
    return [place / name for place in homes]


def _remove(group: Path) -> None:
    """Kill whoever is left in it, and then the group."""
    for procs in group.rglob("cgroup.procs"):
        for pid in procs.read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), 9)
    wait_until(lambda: not any(each.read_text() for each in group.rglob("cgroup.procs")), "an end")
    for folder in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
        folder.rmdir()
    group.rmdir()
