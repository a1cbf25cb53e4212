"""One sandbox: a tree of processes in namespaces of its own, over the host's read-only /usr.

As at Modal, the first process is not the command but a small init, everything starts as root, the
environment tells where it runs, there is no network, and a sandbox that takes more memory than it
may is ended as a whole.
"""

import asyncio
import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from modal_proto import api_pb2

from executor_service.backends.base import MIB, Limits
from executor_service.backends.bubblewrap.host import find_host
from executor_service.backends.cgroups import Cgroups
from tests.fakes.modal.commands import Command

_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("alternatives", "group", "ld.so.cache", "localtime", "nsswitch.conf", "passwd", "ssl/certs")
_NAMESPACES = ("ipc", "pid", "net", "uts", "cgroup")
_RIGHTS = ("CAP_CHOWN", "CAP_SETGID", "CAP_SETUID", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOOK_EVERY_S = 0.05
_MANY_PIDS = 4096
SUCCESS = api_pb2.GenericResult.GENERIC_STATUS_SUCCESS
FAILURE = api_pb2.GenericResult.GENERIC_STATUS_FAILURE
TERMINATED = api_pb2.GenericResult.GENERIC_STATUS_TERMINATED
TIMEOUT = api_pb2.GenericResult.GENERIC_STATUS_TIMEOUT


def obstacle() -> str:
    """Why this machine cannot play Modal; empty if it can."""
    if os.geteuid() != 0:
        return "it needs root, as a sandbox of Modal has inside"
    if "memory" not in Cgroups.find().controllers:
        return "no control group can be made that limits memory"
    return ""


class Machine:
    """A sandbox that was asked for."""

    def __init__(self, ident: str, definition: api_pb2.Sandbox, folders: dict[str, Path]) -> None:
        self.ident = ident
        self.task_id = f"ta-{ident[3:]}V"
        self.result: api_pb2.GenericResult | None = None
        self.ended = asyncio.Event()
        self.commands: dict[str, Command] = {}
        self.entrypoint: Command | None = None
        self._definition = definition
        self._folders = folders
        self._first_pid = 0
        self._cgroups = Cgroups.find()
        self._groups: list[Path] = []
        self._life: asyncio.Task[None] | None = None

    def wanted(self) -> dict[str, Any]:
        """What was asked for, as far as it is not played here."""
        asked, resources = self._definition, self._definition.resources
        kind = asked.network_access.network_access_type
        return {
            "network": api_pb2.NetworkAccess.NetworkAccessType.Name(kind),
            "memory_mb": [resources.memory_mb, resources.memory_mb_max],
            "milli_cpu": [resources.milli_cpu, resources.milli_cpu_max],
            "timeout_secs": asked.timeout_secs,
            "idle_timeout_secs": asked.idle_timeout_secs,
            "regions": list(asked.scheduler_placement.regions),
            "volumes": [volume.mount_path for volume in asked.volume_mounts],
            "secrets": len(asked.secret_ids),
        }

    async def start(self) -> None:
        """Start its command."""
        resources = self._definition.resources
        limits = Limits(
            memory_bytes=resources.memory_mb_max * MIB,
            cpu_count=resources.milli_cpu_max / 1000 or None,
            pids=_MANY_PIDS,
        )
        self._groups = self._cgroups.make(f"modal-{self.ident}", limits, extra_pids=0)
        joining = "".join(f"echo $$ > {group}/cgroup.procs; " for group in self._groups)
        with tempfile.TemporaryFile() as info:
            argv = [*self._bubblewrap(info.fileno()), *self._definition.entrypoint_args]
            shell = ["/bin/sh", "-c", f'{joining}exec "$@"', "sh", *argv]
            command = self.entrypoint = await Command.start(shell, (info.fileno(),))
            while command.status is None and not self._is_there(info.fileno()):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        self._life = asyncio.create_task(self._live())

    def _is_there(self, info: int) -> bool:
        """Whether its first process has made the file system, and begun the command in it."""
        if not (said := os.pread(info, 4096, 0)).endswith(b"}\n"):
            return False
        self._first_pid = json.loads(said)["child-pid"]
        children = Path("/proc", f"{self._first_pid}", "task", f"{self._first_pid}", "children")
        with contextlib.suppress(OSError):
            return bool(children.read_text())
        return False

    def _bubblewrap(self, info: int) -> list[str]:
        program = find_host().bubblewrap
        argv = [str(program.folder / program.name), "--die-with-parent", "--new-session"]
        argv += [f"--unshare-{name}" for name in _NAMESPACES]
        argv += ["--clearenv", "--cap-drop", "ALL", "--hostname", "modal", "--ro-bind"]
        argv += ["/usr", "/usr"]
        for right in _RIGHTS:
            argv += ["--cap-add", right]
        for name in _LINKS:
            if (path := Path("/") / name).is_symlink():
                argv += ["--symlink", str(path.readlink()), str(path)]
        for folder in ("/etc", "/opt"):
            argv += ["--perms", "0755", "--dir", folder]
        for name in _ETC:
            argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        argv += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp"]
        argv += ["--info-fd", str(info), "--setenv", "PATH", _PATH, "--setenv", "HOME", "/root"]
        argv += ["--setenv", "MODAL_TASK_ID", self.task_id, "--setenv", "MODAL_REGION", "nowhere"]
        for place, folder in self._folders.items():
            argv += ["--bind", str(folder), place]
        return [*argv, "--chdir", self._definition.workdir or "/", "--"]

    async def run(self, exec_id: str, argv: list[str]) -> None:
        """Start a command in it, once for each id."""
        if exec_id in self.commands:
            return
        enter = ["nsenter", "--target", str(self._first_pid), "--mount", "--pid", "--net", "--ipc"]
        enter += ["--uts", "--", "/usr/bin/env", "-i", f"PATH={_PATH}", "HOME=/root"]
        self.commands[exec_id] = await Command.start(
            [*enter, f"MODAL_TASK_ID={self.task_id}", *argv]
        )

    async def _live(self) -> None:
        """Wait for the end of its command, of its time or of its memory; then nothing is left."""
        assert self.entrypoint is not None
        over = asyncio.ensure_future(self.entrypoint.wait())
        end = asyncio.get_running_loop().time() + self._definition.timeout_secs
        while not over.done() and self.result is None:
            await asyncio.wait([over], timeout=_LOOK_EVERY_S)
            if asyncio.get_running_loop().time() > end:
                self.result = api_pb2.GenericResult(status=TIMEOUT)
            elif self._has_run_out_of_memory():
                self.result = api_pb2.GenericResult(status=FAILURE, exitcode=137)
        self.entrypoint.kill()
        status = await over
        if self.result is None:
            how = FAILURE if status else SUCCESS
            self.result = api_pb2.GenericResult(status=how, exitcode=status)
        for command in self.commands.values():
            await command.close()
        await asyncio.to_thread(self._cgroups.remove, self._groups)
        self.ended.set()

    def _has_run_out_of_memory(self) -> bool:
        for group in self._groups:
            for name in ("memory.oom_control", "memory.events"):
                with contextlib.suppress(OSError):
                    lines = (group / name).read_text().splitlines()
                    if any(line.startswith("oom_kill ") and line[-2:] != " 0" for line in lines):
                        return True
        return False

    async def end(self) -> None:
        """End it, and return when it has ended."""
        self.result = self.result or api_pb2.GenericResult(status=TERMINATED, exitcode=137)
        if self.entrypoint is not None:
            self.entrypoint.kill()
        if self._life is not None:
            await self._life
