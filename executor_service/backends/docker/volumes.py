"""Workspaces that are volumes of a remote Docker engine.

The engine lists and removes them; a container, hardened as boxes are, measures and copies them.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from executor_service.backends.base import (
    MIB,
    OWNER,
    WORKSPACE,
    BoxSpec,
    Limits,
    Size,
    make_or_destroy,
)
from executor_service.backends.bridge import read_all
from executor_service.backends.docker.engine import Engine, ExecStream
from executor_service.backends.docker.host_config import Hardening, volume_mount, volume_of
from executor_service.backends.docker.supervisor_volume import FOLDER, SUPERVISOR, supervisor_volume
from executor_service.backends.folder_store import by_name, read_outcome, read_sizes
from executor_service.errors import BackendError, EngineRefused, WorkspaceInUse
from services.lifecycle import unbroken

if TYPE_CHECKING:
    import docker

_WORK_DEADLINE_S = 1800
_PLACE = "/workspace"
"""The engine gives a new volume mounted here to the owner in the image, the user of commands."""
_LIMITS = Limits(memory_bytes=256 * MIB, tmp_bytes=16 * MIB)
_NOTHING = Size(0, True)
_Mounts = Mapping[str, Path]
"""Workspaces by the folders at which a container has them."""


class VolumeStore:
    """The volumes of one owner's workspaces."""

    def __init__(
        self,
        owner: str,
        engine: Engine,
        image: str,
        supervisor: bytes,
        hardening: Callable[[], Hardening],
    ) -> None:
        self.place = f"docker {engine.address.url}"
        """Names the engine."""
        self._owner = owner
        self._engine = engine
        self._image = image
        self._supervisor = supervisor
        self._hardening = hardening
        self._looking = asyncio.Lock()

    async def present(self, folder: Path) -> list[Path]:
        filters = quote(json.dumps({"label": [f"{OWNER}={self._owner}", WORKSPACE]}))
        with _refusals():
            found = await self._engine.ask("GET", f"/volumes?filters={filters}")
        paths = [Path(volume["Labels"][WORKSPACE]) for volume in found["Volumes"] or ()]
        return [path for path in paths if path.parent == folder]

    async def measure(self, most_bytes: Mapping[Path, int]) -> Mapping[Path, Size]:
        # Mounting a missing volume would make it; the lock keeps known ones from being removed.
        async with self._looking:
            known = set[Path]()
            for folder in {workspace.parent for workspace in most_bytes}:
                known.update(await self.present(folder))
            there = {path: most for path, most in most_bytes.items() if path in known}
            if not there:
                return {}
            mounts = {f"/workspaces/{workspace.name}": workspace for workspace in there}
            answer = await self._ask(
                mounts, do="measure", root="/workspaces", most_bytes=by_name(there)
            )
        return read_sizes(answer, there)

    async def copy(self, source: Path, target: Path, most_bytes: int) -> int:
        mounts = {"/from": source, _PLACE: target}
        wanted = {"do": "fill", "root": "/", "name": "from", "target": _PLACE}
        return int((await self._ask(mounts, **wanted, most_bytes=most_bytes))["bytes"])

    async def remove(self, workspace: Path) -> None:
        """Remove a volume; the engine refuses if any executor's box uses it."""
        try:
            async with self._looking:
                await self._engine.ask("DELETE", f"/volumes/{volume_of(workspace)}")
        except EngineRefused as error:
            if error.status == HTTPStatus.CONFLICT:
                raise WorkspaceInUse(f"the workspace cannot be removed: {error}") from error
            if error.status != HTTPStatus.NOT_FOUND:
                raise BackendError(f"the engine does not remove the volume: {error}") from error

    async def remove_empty(self, workspaces: Sequence[Path]) -> list[Path]:
        """Remove empty volumes, as far as they have been measured."""
        sizes = await self.measure(dict.fromkeys(workspaces, 0))
        gone: list[Path] = []
        for workspace in workspaces:
            if workspace in sizes:
                if sizes[workspace] != _NOTHING:
                    continue
                try:
                    await self.remove(workspace)
                except WorkspaceInUse:
                    continue
            gone.append(workspace)
        return gone

    async def _ask(self, mounts: _Mounts, **wanted: Any) -> dict[str, Any]:
        request = json.dumps({**wanted, "within_s": _WORK_DEADLINE_S})
        try:
            with _refusals():
                async with (
                    self._container(mounts, request) as stream,
                    asyncio.timeout(_WORK_DEADLINE_S),
                ):
                    said = await read_all(stream)
        except TimeoutError:
            raise BackendError(f"not done within {_WORK_DEADLINE_S} s") from None
        return read_outcome(said.decode(errors="replace"))

    @asynccontextmanager
    async def _container(self, mounts: _Mounts, request: str) -> AsyncGenerator[ExecStream]:
        ident = await make_or_destroy(
            self._engine.call(lambda sdk: self._make(sdk, mounts, request)),
            self._engine.remove_container,
        )
        try:
            path = f"/containers/{ident}"
            stream = await self._engine.stream(f"{path}/attach?stream=1&stdout=1&stderr=1", None)
            try:
                await self._engine.ask("POST", f"{path}/start")
                yield stream
            finally:
                await stream.close()
        finally:
            await unbroken(self._engine.remove_container(ident))

    def _make(self, sdk: "docker.DockerClient", mounts: _Mounts, request: str) -> str:
        from docker.types import Mount

        hardening = self._hardening()
        volume = supervisor_volume(sdk, self._image, self._supervisor)
        spec = BoxSpec("store", self._owner, "store", Path(_PLACE), _LIMITS)
        host: dict[str, Any] = hardening.host_config(spec, volume, handover=None) | {
            "mounts": [
                Mount(FOLDER, volume, type="volume", read_only=True),
                *(volume_mount(place, path, self._owner) for place, path in mounts.items()),
            ]
        }
        created = cast("Any", sdk.api).create_container(
            self._image,
            [],
            entrypoint=[*SUPERVISOR, "--folders", request],
            user=hardening.user.named,
            labels={OWNER: self._owner},
            host_config=sdk.api.create_host_config(**host),
            use_config_proxy=False,
        )
        return str(created["Id"])


@contextmanager
def _refusals() -> Generator[None]:
    try:
        yield
    except EngineRefused as error:
        raise BackendError(f"the engine does not work on workspaces: {error}") from error
