"""Boxes that are containers of a Docker engine.

The supervisor is the container's first process. The executor reaches it through a bridge: a
command that the engine runs in the box and whose streams it hands on.
"""

import asyncio
import dataclasses
import json
import os
import secrets
import time
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from executor_service.backends import docker_probe
from executor_service.backends.base import Box, BoxSpec, ByteStream, Capabilities, Limits
from executor_service.backends.docker_supervisor import FILE, FOLDER, supervisor_volume
from executor_service.backends.engine import CALL_DEADLINE_S, Engine, EngineAddress
from executor_service.errors import BackendUnavailable, BoxCreateFailed, BoxLost, EngineRefused

if TYPE_CHECKING:
    import docker
    from docker.types import Mount

NAME = "docker"
_BOX_KEY = "org.hermes.box"
_OWNER = "org.hermes.owner"
_POOL = "org.hermes.pool"
_WORKSPACE = "org.hermes.workspace"
_SECRET = "org.hermes.secret"  # noqa: S105
_PYTHON = ("python3", "-I", f"{FOLDER}/{FILE}")
_SOCKET = "@hermes-supervisor"
"""Not a file: it lies in the box's own network namespace, where no command can replace it."""
_FILES_PER_TMPFS = 65536
_UNPRIVILEGED_UID = 1000
_REMOVAL_POLL_S = 0.02


@dataclasses.dataclass(frozen=True, slots=True)
class DockerOptions:
    """What an operator may choose."""

    address: EngineAddress = dataclasses.field(default_factory=EngineAddress)
    image: str = "hermes-sandbox:latest"
    """Image of boxes that do not name one; needs Python 3.8 or newer and a folder /workspace."""
    runtime: str = ""
    """OCI runtime, for example runsc for gVisor; empty is the engine's default."""


class DockerBackend:
    """Makes boxes with a Docker engine, one container each."""

    def __init__(self, owner: str, supervisor: bytes, options: DockerOptions) -> None:
        self._owner = owner
        self._supervisor = supervisor
        self._options = options
        self._engine = Engine(options.address)
        own_uid = os.getuid() if options.address.is_local else 0
        self._uid = own_uid or _UNPRIVILEGED_UID
        self._seccomp = ""

    async def probe(self) -> Capabilities:
        """What the engine can do and really enforces."""
        return await docker_probe.probe(self._engine, self._options.image, self._options.runtime)

    async def create(self, spec: BoxSpec) -> Box:
        """Make a container and start it."""
        if sum(_tmpfs_sizes(spec.limits).values()) >= spec.limits.memory_bytes:
            raise BoxCreateFailed("the memory limit must exceed the sizes of all tmpfs together")
        making = asyncio.ensure_future(self._engine.call(lambda sdk: self._make(sdk, spec)))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            # The thread goes on all the same; what it makes must not be left behind.
            await asyncio.wait([making])
            if not making.exception():
                await self.destroy(making.result())
            raise
        except EngineRefused as error:
            if "No such image" in str(error):
                raise BackendUnavailable(f"{error}; run `make sandbox-image`") from error
            raise BoxCreateFailed(f"the engine could not make the box: {error}") from error

    def _make(self, sdk: "docker.DockerClient", spec: BoxSpec) -> Box:
        from docker.errors import APIError

        secret = secrets.token_hex(32)
        image = spec.image or self._options.image
        volume = supervisor_volume(sdk, image, self._supervisor)
        labels = {
            _BOX_KEY: spec.box_key,
            _OWNER: spec.owner,
            _POOL: spec.pool,
            _WORKSPACE: str(spec.workspace),
            _SECRET: secret,
        }
        created = cast("Any", sdk.api).create_container(
            image,
            [],
            entrypoint=[
                *(*_PYTHON, "--socket", _SOCKET, "--box", spec.box_key),
                *("--secret-sha256", sha256(secret.encode()).hexdigest()),
            ],
            environment={"HOME": "/workspace"},
            name=f"hermes-box-{spec.box_key}",
            hostname="sandbox",
            user=f"{self._uid}:{self._uid}",
            working_dir="/workspace",
            labels=labels,
            host_config=sdk.api.create_host_config(**self._hardening(spec, volume)),
            use_config_proxy=False,
        )
        box = _box(created["Id"], labels)
        try:
            sdk.api.start(box.native_id)
        except APIError:
            sdk.api.remove_container(box.native_id, force=True)
            raise
        return box

    def _hardening(self, spec: BoxSpec, supervisor_volume: str) -> dict[str, Any]:
        from docker.types import LogConfig, Mount, Ulimit

        limits = spec.limits
        return {
            "runtime": self._options.runtime or None,
            "init": False,
            "auto_remove": True,
            "network_mode": "none",
            "dns": ["127.0.0.1"],
            "ipc_mode": "none",
            "log_config": LogConfig(type="none"),
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges", f"seccomp={self._seccomp_profile()}"],
            "read_only": True,
            "tmpfs": _tmpfs(limits, self._uid),
            "mounts": [
                Mount(FOLDER, supervisor_volume, type="volume", read_only=True),
                self._workspace(spec.workspace),
            ],
            "pids_limit": limits.pids,
            "mem_limit": limits.memory_bytes,
            "memswap_limit": limits.memory_bytes,
            "nano_cpus": int(limits.cpu_count * 1e9) if limits.cpu_count else None,
            "ulimits": [Ulimit(name="core", soft=0, hard=0)],
        }

    def _workspace(self, folder: Path) -> "Mount":
        from docker.types import Mount

        if self._options.address.is_local:
            return Mount("/workspace", str(folder), type="bind", propagation="rprivate")
        # An engine elsewhere does not see the folder: there, a volume of its own stands for it.
        name = f"hermes-workspace-{sha256(os.fsencode(folder)).hexdigest()[:16]}"
        return Mount("/workspace", name, type="volume")

    def _seccomp_profile(self) -> str:
        if not self._seccomp:
            profile = (files("executor_service") / "seccomp.json").read_text("utf-8")
            self._seccomp = json.dumps(json.loads(profile), separators=(",", ":"))
        return self._seccomp

    async def connect(self, box: Box) -> ByteStream:
        """Run a bridge in the container and take its streams over."""
        bridge = {
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": [*_PYTHON, "--bridge", _SOCKET],
        }
        try:
            path = f"/containers/{box.native_id}/exec"
            command = await self._engine.ask("POST", path, bridge)
            start = {"Detach": False, "Tty": False}
            return await self._engine.stream(f"/exec/{command['Id']}/start", start)
        except EngineRefused as error:
            raise BoxLost(f"box {box.key} cannot be reached: {error}") from error

    async def destroy(self, box: Box) -> None:
        """Kill and remove the container, then make sure that it is gone."""
        await self._engine.call(lambda sdk: self._remove(sdk, box))

    def _remove(self, sdk: "docker.DockerClient", box: Box) -> None:
        from docker.errors import APIError

        deadline = time.monotonic() + CALL_DEADLINE_S
        while found := self._find(sdk, f"{_BOX_KEY}={box.key}"):
            for container in found:
                try:
                    sdk.api.remove_container(container["Id"], force=True, v=True)
                except APIError as error:
                    # 404: it went by itself; 409: the engine is removing it at this moment.
                    if error.status_code not in {404, 409} or time.monotonic() > deadline:
                        raise
                    time.sleep(_REMOVAL_POLL_S)

    async def list_boxes(self) -> list[Box]:
        """All containers of this owner, started or about to be."""
        found = await self._engine.call(self._find)
        return [_box(container["Id"], container["Labels"]) for container in found]

    def _find(self, sdk: "docker.DockerClient", *labels: str) -> list[dict[str, Any]]:
        wanted = [f"{_OWNER}={self._owner}", _BOX_KEY, *labels]
        return cast("Any", sdk.api).containers(all=True, filters={"label": wanted})

    async def close(self) -> None:
        """Let go of the engine's client; the boxes live on."""
        await self._engine.close()


def _box(native_id: str, labels: dict[str, str]) -> Box:
    return Box(
        key=labels[_BOX_KEY],
        backend=NAME,
        native_id=native_id,
        workspace=Path(labels[_WORKSPACE]),
        pool=labels[_POOL],
        secret=labels[_SECRET],
        labels={name: value for name, value in labels.items() if name != _SECRET},
    )


def _tmpfs_sizes(limits: Limits) -> dict[str, int]:
    return {
        "/tmp": limits.tmp_bytes,  # noqa: S108
        "/var/tmp": limits.tmp_bytes // 2,  # noqa: S108
        "/run": limits.tmp_bytes // 8,
        "/dev/shm": limits.tmp_bytes // 8,  # noqa: S108
    }


def _tmpfs(limits: Limits, uid: int) -> dict[str, str]:
    """Mount options of every writable place that is memory."""
    common = f"rw,nosuid,nodev,nr_inodes={_FILES_PER_TMPFS}"
    rights = {"/run": f"noexec,mode=0755,uid={uid},gid={uid}", "/tmp": "exec,mode=1777"}  # noqa: S108
    return {
        path: f"{common},{rights.get(path, 'noexec,mode=1777')},size={size}"
        for path, size in _tmpfs_sizes(limits).items()
    }
