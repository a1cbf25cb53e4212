"""Boxes that are containers of a Docker engine.

The supervisor is the container's first process. With a local engine, the executor reaches it by a
socket of the box's own. With a remote engine or gVisor it uses a bridge: a command that the engine
runs in the box and whose streams it passes on.
"""

import json
import logging
import os
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from msgspec.structs import replace

from executor_service.backends.base import (
    BOX,
    OWNER,
    SKILLS_BYTES,
    Box,
    BoxSpec,
    Capabilities,
    labelled_box,
    labels_of,
    make_or_destroy,
)
from executor_service.backends.bridge import BRIDGE, supervisor_arguments, wait_greeting
from executor_service.backends.docker import probe as docker_probe
from executor_service.backends.docker.engine import CALL_DEADLINE_S, Engine, EngineAddress
from executor_service.backends.docker.gvisor import BridgeStream, limit_pids, ran_out_of_memory
from executor_service.backends.docker.host_config import Hardening, check_memory
from executor_service.backends.docker.sockets import HANDOVER_SOCKET, BoxSockets
from executor_service.backends.docker.supervisor_volume import SUPERVISOR, supervisor_volume
from executor_service.backends.docker.users import ordinary_user
from executor_service.backends.docker.volumes import VolumeStore
from executor_service.config import DockerConfig
from executor_service.errors import (
    BackendUnavailable,
    BoxCreateFailed,
    BoxLost,
    BoxOutOfMemory,
    EngineRefused,
)
from executor_service.link.byte_streams import ByteStream
from executor_service.records.sandboxes import Isolation

if TYPE_CHECKING:
    import docker

NAME = "docker"
_ANY_TIME_S = 1e6
_HANDOVER_TIMEOUT_S = 10.0
"""How long a new box may take to ask for its socket."""

_log = logging.getLogger(__name__)


class DockerBackend:
    """Makes boxes with a Docker engine, one container each."""

    def __init__(self, owner: str, folder: Path, supervisor: bytes, options: DockerConfig) -> None:
        self._owner = owner
        self._sockets = BoxSockets(folder / "boxes")
        address = EngineAddress(options.host, options.ca, options.certificate, options.key)
        self._is_local = address.is_local
        self._takes_sockets = address.is_local
        """Whether boxes can be reached by sockets, as far as is known."""
        self._supervisor = supervisor
        self._options = options
        self._engine = Engine(address)
        user = ordinary_user(os.geteuid() if address.is_local else 0)
        self._hardening = Hardening(user, options.runtime, address.is_local)
        self._is_probed = False
        self._volumes = VolumeStore(
            owner, self._engine, options.image, supervisor, lambda: self._hardening
        )

    @property
    def workspace_store(self) -> VolumeStore | None:
        """The volumes of workspaces of a remote engine; None for a local one."""
        return None if self._is_local else self._volumes

    async def probe(self) -> Capabilities:
        options = self._options
        found, user = await docker_probe.probe(self._engine, options.image, options.runtime)
        is_gvisor = found.isolation is Isolation.USERSPACE_KERNEL
        self._hardening = replace(
            self._hardening, user=user or self._hardening.user, is_gvisor=is_gvisor
        )
        self._takes_sockets &= not is_gvisor
        self._is_probed = found.available
        return found

    async def create(self, spec: BoxSpec) -> Box:
        check_memory(spec.limits, SKILLS_BYTES)
        if not self._is_probed:
            await self.probe()
        try:
            return await make_or_destroy(self._create(spec), self.destroy)
        except EngineRefused as error:
            if "No such image" in str(error):
                raise BackendUnavailable(f"{error}; run `make sandbox-image`") from error
            raise BoxCreateFailed(f"the engine could not make the box: {error}") from error
        except OSError as error:
            raise BoxCreateFailed(f"the socket of the box cannot be made: {error}") from error

    async def _create(self, spec: BoxSpec) -> Box:
        if self._takes_sockets:
            async with self._sockets.create(spec.box_key) as handover:
                try:
                    box = await self._engine.call(
                        lambda sdk: self._make(sdk, spec, handover.folder)
                    )
                except EngineRefused as error:
                    if str(handover.folder) not in str(error):
                        raise
                    self._reach_by_bridge(str(error))
                else:
                    if not await handover.wait(_HANDOVER_TIMEOUT_S):
                        self._reach_by_bridge(
                            f"the box does not ask for its socket in {handover.folder}"
                        )
                    return box
        return await self._engine.call(lambda sdk: self._make(sdk, spec, None))

    def _reach_by_bridge(self, why: str) -> None:
        if self._takes_sockets:
            self._takes_sockets = False
            _log.warning(
                "boxes are reached through the engine, which is slower than a socket: %s", why
            )

    def _make(self, sdk: "docker.DockerClient", spec: BoxSpec, handover: Path | None) -> Box:
        from docker.errors import APIError

        hardening = self._hardening
        if self._is_local:
            user = hardening.user.for_folder(spec.workspace, is_bound=spec.is_bound)
            hardening = replace(hardening, user=user)
        image = self._options.image
        volume = supervisor_volume(sdk, image, self._supervisor)
        labels = labels_of(spec)
        supervisor = [*SUPERVISOR, *supervisor_arguments(spec)]
        if handover is not None:
            supervisor += ("--handover", HANDOVER_SOCKET)
        created = cast("Any", sdk.api).create_container(
            image,
            [],
            entrypoint=supervisor,
            environment={"HOME": "/workspace"},
            name=f"hermes-box-{spec.box_key}",
            hostname="sandbox",
            # A first process ignores SIGTERM: the engine would wait ten seconds for it.
            stop_signal="SIGKILL",
            user=hardening.user.named,
            working_dir="/workspace",
            labels=labels,
            host_config=sdk.api.create_host_config(**hardening.host_config(spec, volume, handover)),
            use_config_proxy=False,
        )
        box = labelled_box(NAME, created["Id"], labels)
        try:
            sdk.api.start(box.native_id)
            if self._hardening.is_gvisor:
                limit_pids(sdk, box.native_id, spec.limits.pids)
        except (APIError, BoxCreateFailed):
            sdk.api.remove_container(box.native_id, force=True)
            raise
        return box

    async def connect(self, box: Box) -> ByteStream:
        try:
            return await self._sockets.connect(box.key)
        except FileNotFoundError:
            return await self._bridge(box)
        except OSError as error:
            raise BoxLost(f"box {box.key} does not answer: {error}") from error

    async def _bridge(self, box: Box) -> ByteStream:
        bridge = {
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": [*SUPERVISOR, *BRIDGE],
        }
        try:
            path = f"/containers/{box.native_id}/exec"
            command = await self._engine.ask("POST", path, bridge)
            start = {"Detach": False, "Tty": False}
            stream = await self._engine.stream(f"/exec/{command['Id']}/start", start)
        except EngineRefused as error:
            raise await self._lost(box, error) from error
        await wait_greeting(stream, CALL_DEADLINE_S)
        if self._hardening.is_gvisor:
            return BridgeStream(stream, lambda: self._until_ended(box))
        return stream

    async def _until_ended(self, box: Box) -> bool:
        """Wait until the engine reports that a box has ended; False if it does not."""
        try:
            await self._engine.ask("POST", f"/containers/{box.native_id}/wait", None, _ANY_TIME_S)
        except EngineRefused as error:
            return error.status == HTTPStatus.NOT_FOUND
        except BackendUnavailable:
            return False
        return True

    async def _lost(self, box: Box, why: EngineRefused) -> BoxLost:
        if self._hardening.is_gvisor and await self._engine.call(
            lambda sdk: ran_out_of_memory(sdk, box.native_id)
        ):
            return BoxOutOfMemory(f"box {box.key} has used more memory than it may")
        return BoxLost(f"box {box.key} cannot be reached: {why}")

    async def destroy(self, box: Box) -> None:
        """Kill and remove the container, then make sure that it is gone."""
        for container in await self._find(f"{BOX}={box.key}"):
            await self._engine.remove_container(container["Id"])
        await self._sockets.forget(box.key)

    async def list_boxes(self) -> list[Box]:
        """All containers of this owner, started or about to be."""
        found = await self._find(BOX)
        boxes = [labelled_box(NAME, each["Id"], each["Labels"]) for each in found]
        await self._sockets.forget_others({box.key for box in boxes})
        return boxes

    async def _find(self, label: str) -> list[dict[str, Any]]:
        # Without the SDK, which loads slowly: every start needs this.
        filters = quote(json.dumps({"label": [f"{OWNER}={self._owner}", label]}))
        return await self._engine.ask("GET", f"/containers/json?all=1&filters={filters}")

    async def close(self) -> None:
        await self._engine.close()
