"""How the docker backend hardens a box."""

import json
import os
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from executor_service.backends.base import OWNER, SKILLS, SKILLS_BYTES, WORKSPACE, BoxSpec, Limits
from executor_service.backends.docker.gvisor import host_pids
from executor_service.backends.docker.sockets import HANDOVER
from executor_service.backends.docker.supervisor_volume import FOLDER
from executor_service.backends.docker.users import BoxUser
from executor_service.errors import BoxCreateFailed

if TYPE_CHECKING:
    from docker.types import Mount

_FILES_PER_TMPFS = 65536


class Hardening(Struct, frozen=True):
    """How every container is hardened."""

    user: BoxUser
    """The user of commands."""
    runtime: str
    """OCI runtime; empty is the engine's default."""
    engine_is_local: bool
    """Whether the engine sees this host's files."""
    is_gvisor: bool = False
    """Whether boxes run on gVisor's kernel."""

    def host_config(
        self, spec: BoxSpec, supervisor_volume: str, handover: Path | None
    ) -> dict[str, Any]:
        """Arguments of the SDK's create_host_config."""
        from docker.types import LogConfig, Mount, Ulimit

        limits = spec.limits
        mounts = [
            Mount(FOLDER, supervisor_volume, type="volume", read_only=True),
            self._workspace(spec),
        ]
        if handover is not None:
            # Read-only: a connection needs no write permission.
            mounts.append(
                Mount(HANDOVER, str(handover), type="bind", read_only=True, propagation="rprivate")
            )
        return {
            "runtime": self.runtime or None,
            "init": False,
            "auto_remove": True,
            "network_mode": "none",
            "dns": ["127.0.0.1"],
            "ipc_mode": "none",
            "log_config": LogConfig(type="none"),
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges", f"seccomp={seccomp_profile()}"],
            "read_only": True,
            "tmpfs": self._tmpfs(limits),
            "mounts": mounts,
            "pids_limit": host_pids(limits.pids) if self.is_gvisor else limits.pids,
            "mem_limit": limits.memory_bytes,
            "memswap_limit": limits.memory_bytes,
            "nano_cpus": int(limits.cpu_count * 1e9) if limits.cpu_count else None,
            "ulimits": [Ulimit(name="core", soft=0, hard=0)],
        }

    def _workspace(self, spec: BoxSpec) -> "Mount":
        from docker.types import Mount

        if self.engine_is_local:
            folder = str(spec.workspace)
            return Mount("/workspace", folder, type="bind", propagation="rprivate")
        return volume_mount("/workspace", spec.workspace, spec.owner)

    def _tmpfs(self, limits: Limits) -> dict[str, str]:
        common = f"rw,nosuid,nodev,nr_inodes={_FILES_PER_TMPFS}"
        own = f"mode=0755,uid={self.user.uid},gid={self.user.uid}"
        rights = {"/tmp": "exec,mode=1777", "/run": f"noexec,{own}", SKILLS: f"exec,{own}"}  # noqa: S108
        return {
            path: f"{common},{rights.get(path, 'noexec,mode=1777')},size={size}"
            for path, size in {**tmpfs_sizes(limits), SKILLS: SKILLS_BYTES}.items()
        }


def volume_mount(place: str, workspace: Path, owner: str) -> "Mount":
    """Mounts a workspace's volume, which the engine creates if it is missing."""
    from docker.types import Mount

    # A remote engine does not see the folder: a volume takes its place.
    labels = {OWNER: owner, WORKSPACE: str(workspace)}
    return Mount(place, volume_of(workspace), type="volume", labels=labels)


def volume_of(workspace: Path) -> str:
    """The name of a workspace's volume at a remote engine."""
    return f"hermes-workspace-{sha256(os.fsencode(workspace)).hexdigest()[:16]}"


def tmpfs_sizes(limits: Limits) -> dict[str, int]:
    """Every writable folder in memory, and its size in bytes."""
    return {
        "/tmp": limits.tmp_bytes,  # noqa: S108
        "/var/tmp": limits.tmp_bytes // 2,  # noqa: S108
        "/run": limits.tmp_bytes // 8,
        "/dev/shm": limits.tmp_bytes // 8,  # noqa: S108
    }


def check_memory(limits: Limits, more_bytes: int = 0) -> None:
    """BoxCreateFailed if files in memory could fill the box's memory limit."""
    if sum(tmpfs_sizes(limits).values()) + more_bytes >= limits.memory_bytes:
        raise BoxCreateFailed(
            "the memory limit must exceed the sizes of all tmpfs together (executor.memory_bytes)"
        )


def seccomp_profile() -> str:
    """The system call filter in the engine's format."""
    profile = (files("executor_service.backends") / "seccomp.json").read_text("utf-8")
    return json.dumps(json.loads(profile), separators=(",", ":"))
