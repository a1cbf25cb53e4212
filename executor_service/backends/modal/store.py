"""Workspaces that are volumes of Modal, which lists and deletes them; a sandbox copies them."""

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executor_service.backends.base import Size
from executor_service.backends.folder_store import check_end, read_outcome
from executor_service.backends.modal.account import CALL_DEADLINE_S, SUPERVISOR, ModalAccount
from executor_service.errors import BackendError, BackendUnavailable, EngineRefused
from services.lifecycle import unbroken

if TYPE_CHECKING:
    import modal

_NAME_CHARACTERS = 40
_DIGEST_CHARACTERS = 12
_COPY_DEADLINE_S = 1800
_START_DEADLINE_S = 120.0
_MEMORY_MIB = (128, 512)
_BYTES_OF_AN_ENTRY = 256


def _volume_name(owner: str, workspace: Path) -> str:
    """The volume's name: the workspace's name, and a digest with the owner."""
    readable = re.sub(r"[^A-Za-z0-9_.-]", "-", workspace.name)[:_NAME_CHARACTERS]
    digest = sha256(f"{owner}\0{workspace}".encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"hermes-{readable}-{digest}"


class VolumeStore:
    """The volumes of one owner."""

    def __init__(self, owner: str, account: ModalAccount) -> None:
        self._owner = owner
        self._account = account
        options = account.options
        self._environment = options.environment or None
        self.place = f"modal {options.server_url} {options.environment}".strip()
        """Names the server and the environment."""

    async def present(self, folder: Path) -> list[Path]:
        opened = await self._account.open()
        from modal import Volume

        async with self._answering():
            found = await Volume.objects.list.aio(
                environment_name=self._environment or "", client=opened.client
            )
        paths: list[Path] = []
        for volume in found:
            name = (volume.name or "").removeprefix("hermes-")
            path = folder / name[: -_DIGEST_CHARACTERS - 1]
            if volume.name == _volume_name(self._owner, path):
                paths.append(path)
        return paths

    async def measure(self, most_bytes: Mapping[Path, int]) -> Mapping[Path, Size]:
        """Measures the sizes of all files, plus a fixed size for each entry."""
        sizes: dict[Path, Size] = {}
        for workspace, most in most_bytes.items():
            seen_bytes = 0
            async for entry in self._entries(workspace, recursive=True):
                seen_bytes += entry.size + _BYTES_OF_AN_ENTRY
            sizes[workspace] = Size(seen_bytes, seen_bytes <= most)
        return sizes

    async def copy(self, source: Path, target: Path, most_bytes: int) -> int:
        request = {"do": "fill", "root": "/", "name": "from", "target": "/to"}
        request |= {"most_bytes": most_bytes, "within_s": _COPY_DEADLINE_S}
        async with self._machine(source, target) as sandbox, self._answering(_COPY_DEADLINE_S):
            process = await sandbox.exec.aio(
                *(*SUPERVISOR, "--folders", json.dumps(request)), timeout=_COPY_DEADLINE_S
            )
            said = await process.stdout.read.aio()
            complaint = await process.stderr.read.aio()
            status = await process.wait.aio()
        check_end(status, complaint)
        return int(read_outcome(said)["bytes"])

    async def remove(self, workspace: Path) -> None:
        opened = await self._account.open()
        from modal import Volume

        async with self._answering():
            await Volume.objects.delete.aio(
                _volume_name(self._owner, workspace),
                allow_missing=True,
                environment_name=self._environment,
                client=opened.client,
            )

    async def remove_empty(self, workspaces: Sequence[Path]) -> list[Path]:
        gone: list[Path] = []
        for workspace in workspaces:
            if not [entry async for entry in self._entries(workspace, recursive=False)]:
                await self.remove(workspace)
                gone.append(workspace)
        return gone

    async def _entries(self, workspace: Path, *, recursive: bool) -> AsyncGenerator[Any]:
        """Yield a volume's entries as Modal lists them; none if there is no volume."""
        volume = await self.volume(workspace, make=False)
        try:
            async with self._account.answering(CALL_DEADLINE_S):
                async for entry in volume.iterdir.aio("/", recursive=recursive):
                    yield entry
        except EngineRefused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise BackendUnavailable(f"Modal does not show a volume: {error}") from error

    async def volume(self, workspace: Path, *, make: bool) -> "modal.Volume":
        opened = await self._account.open()
        from modal import Volume

        return Volume.from_name(
            _volume_name(self._owner, workspace),
            environment_name=self._environment,
            create_if_missing=make,
            client=opened.client,
        )

    @asynccontextmanager
    async def _machine(self, source: Path, target: Path) -> AsyncGenerator["modal.Sandbox"]:
        """Run a sandbox with both volumes, which is no box, for the time of the block."""
        opened = await self._account.open()
        built = await self._account.image()
        from modal import Sandbox

        volumes: dict[Any, Any] = {
            "/from": await self.volume(source, make=True),
            "/to": await self.volume(target, make=True),
        }
        async with self._answering(_START_DEADLINE_S):
            sandbox = await Sandbox.create.aio(
                *("sleep", str(_COPY_DEADLINE_S)),
                app=opened.app,
                image=built.image,
                timeout=_COPY_DEADLINE_S,
                workdir="/",
                region=self._account.options.region or None,
                memory=_MEMORY_MIB,
                block_network=True,
                volumes=volumes,
                client=opened.client,
            )
        try:
            yield sandbox
        finally:
            await unbroken(self._end(sandbox))

    async def _end(self, sandbox: "modal.Sandbox") -> None:
        async with self._answering():
            # When a sandbox has ended, Modal has stored its volumes.
            await sandbox.terminate.aio(wait=True)
            await sandbox.detach.aio()

    @asynccontextmanager
    async def _answering(self, deadline_s: float = CALL_DEADLINE_S) -> AsyncGenerator[None]:
        try:
            async with self._account.answering(deadline_s):
                yield
        except EngineRefused as error:
            raise BackendError(f"Modal does not work on the volume: {error}") from error
