"""Boxes that are sandboxes of Modal: machines of a cloud service, each behind gVisor.

A sandbox runs the supervisor, so it ends, and stops costing money, when the supervisor ends: half
an hour after the last executor left. The executor reaches it through a bridge: a command that Modal
runs in the sandbox and whose streams it passes on. A bridge is replaced every hour, because Modal
does not notice when an executor dies, and the supervisor takes a bridge for an executor.
"""

import asyncio
import json
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from executor_service.backends.base import (
    MIB,
    Box,
    BoxSpec,
    Capabilities,
    Enforcement,
    Limits,
    LimitSupport,
    WorkspacePlace,
)
from executor_service.backends.bridge import BRIDGE, PYTHON, supervisor_arguments, wait_greeting
from executor_service.backends.modal.account import (
    CALL_DEADLINE_S,
    LONGEST_LIFE_S,
    SUPERVISOR,
    Built,
    ModalAccount,
)
from executor_service.backends.modal.store import VolumeStore
from executor_service.backends.modal.stream import ModalStream
from executor_service.config import ModalConfig
from executor_service.errors import (
    BackendError,
    BackendUnavailable,
    BoxCreateFailed,
    BoxLost,
    EngineRefused,
    LinkClosed,
)
from executor_service.records.sandboxes import Isolation
from services.lifecycle import all_of

if TYPE_CHECKING:
    import modal

_NAME = "modal"
_OWNER, _BOX, _POOL, _WORKSPACE = (f"hermes-{it}" for it in ("owner", "box", "pool", "workspace"))
"""Tags of sandboxes, by which boxes are found again."""
_BOX_USER = 1000
_CREATE_DEADLINE_S = 120.0
_START_DEADLINE_S = 300.0
"""Modal answers before the sandbox runs; it may still have to fetch the image."""
_BRIDGE_LIVES_S = 3600
_IDLE_S = 2400
"""Longer than the supervisor waits for an executor."""
_CPU_REQUEST = 0.125
_MEMORY_REQUEST_MIB = 256
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


class ModalBackend:
    """Makes boxes at Modal."""

    def __init__(
        self,
        owner: str,
        folder: Path,
        supervisor: bytes,
        options: ModalConfig,
        workspaces: Path,
        lifetime_s: int = LONGEST_LIFE_S,
    ) -> None:
        """`workspaces` has a path for each workspace; Modal ends a sandbox after its lifetime."""
        self._owner = owner
        self._options = options
        self._lifetime_s = lifetime_s
        self._account = ModalAccount(options, supervisor, folder)
        self._workspaces = workspaces
        self._store = VolumeStore(owner, self._account)
        self._known: dict[str, Box] = {}
        """By sandbox id, the boxes whose tags have been read."""

    async def probe(self) -> Capabilities:
        """Check whether Modal accepts the token; makes no box, because that costs money."""
        try:
            await self._account.open()
        except BackendError as error:
            return _capabilities(str(error), available=False)
        return _capabilities(
            f"app {self._options.app} at {self._options.server_url}", available=True
        )

    async def create(self, spec: BoxSpec) -> Box:
        try:
            built = await self._account.image()
            native_id = await self._make(spec, built)
            box = Box(spec.box_key, _NAME, native_id, spec.workspace, spec.pool)
            await self._expect_supervisor(box)
        except BaseException as error:
            # Modal completes the request even if its answer was lost.
            await asyncio.shield(self._give_up(spec.box_key))
            if isinstance(error, EngineRefused | LinkClosed | BoxLost):
                raise BoxCreateFailed(f"Modal could not make the box: {error}") from error
            raise
        return box

    async def _make(self, spec: BoxSpec, built: Built) -> str:
        opened = await self._account.open()
        from modal import Sandbox

        cpu = spec.limits.cpu_count
        async with self._account.answering(_CREATE_DEADLINE_S):
            sandbox = await Sandbox.create.aio(
                *_start(spec, built),
                app=opened.app,
                tags={
                    _OWNER: self._owner,
                    _BOX: spec.box_key,
                    _POOL: spec.pool,
                    _WORKSPACE: spec.workspace.name,
                },
                image=built.image,
                timeout=self._lifetime_s,
                idle_timeout=_IDLE_S,
                workdir="/",
                region=self._options.region or None,
                cpu=(min(cpu, _CPU_REQUEST), cpu) if cpu else None,
                memory=_memory(spec.limits),
                block_network=True,
                volumes={"/workspace": await self._store.volume(spec.workspace, make=True)},
                client=opened.client,
            )
            await sandbox.detach.aio()
        return sandbox.object_id

    async def _expect_supervisor(self, box: Box) -> None:
        try:
            stream = await self._reach(box, _START_DEADLINE_S)
        except (BoxLost, LinkClosed) as error:
            # It may end just as the bridge begins.
            said = await self._account.last_words(box.native_id)
            raise BoxLost(f"{error}; {said}" if said else str(error)) from error
        await stream.close()

    async def _give_up(self, key: str) -> None:
        """End what may have been made; what cannot be ended now is found later as a stray."""
        try:
            await self._end(key)
        except BackendError:
            return

    async def connect(self, box: Box) -> ModalStream:
        # The SDK's calls cannot be cancelled, so the bridge must not wait in the box.
        return await self._reach(box, CALL_DEADLINE_S, "--once")

    async def _reach(self, box: Box, deadline_s: float, *patience: str) -> ModalStream:
        bridge = (*SUPERVISOR, *BRIDGE, *patience)
        try:
            sandbox, process = await self._account.run(
                box.native_id, bridge, _BRIDGE_LIVES_S, deadline_s
            )
        except EngineRefused as error:
            if error.status in _GONE:
                raise BoxLost(f"box {box.key} is gone: {error}") from error
            raise LinkClosed(f"box {box.key} cannot be reached: {error}") from error
        account = self._account
        stream = ModalStream(sandbox, process, account.failures, account.calls, account.workers)
        return await wait_greeting(stream, CALL_DEADLINE_S, stream.complaint)

    async def destroy(self, box: Box) -> None:
        """Have Modal end the box's sandbox, then make sure that it is gone."""
        await self._end(box.key)

    async def _end(self, key: str) -> None:
        """End every sandbox of ours that is this box, whatever its id."""
        for sandbox in await self._account.sandboxes({_OWNER: self._owner, _BOX: key}):
            await self._terminate(sandbox)

    async def _terminate(self, sandbox: "modal.Sandbox") -> None:
        """End a sandbox and wait; by then Modal has stored its volume."""
        try:
            async with self._account.answering(CALL_DEADLINE_S):
                await sandbox.terminate.aio(wait=True)
        except EngineRefused as error:
            if error.status not in _GONE:
                raise BackendUnavailable(f"Modal does not end the box: {error}") from error

    async def list_boxes(self) -> list[Box]:
        living = await self._account.sandboxes({_OWNER: self._owner})
        found = await all_of(self._identify(sandbox) for sandbox in living)
        self._known = {box.native_id: box for box in found if box is not None}
        return list(self._known.values())

    async def _identify(self, sandbox: "modal.Sandbox") -> Box | None:
        ident = sandbox.object_id
        if ident in self._known:
            return self._known[ident]
        try:
            async with self._account.answering(CALL_DEADLINE_S):
                tags = await sandbox.get_tags.aio()
        except EngineRefused:
            return None
        return Box(tags[_BOX], _NAME, ident, self._workspaces / tags[_WORKSPACE], tags[_POOL])

    async def close(self) -> None:
        await self._account.close()

    @property
    def workspace_store(self) -> VolumeStore:
        return self._store


def _start(spec: BoxSpec, built: Built) -> tuple[str, ...]:
    """The command of a sandbox, which commands in it can see: it has no secrets."""
    request = {"user": _BOX_USER, "argv": [*SUPERVISOR[1:], *supervisor_arguments(spec)]}
    return (*PYTHON, "-c", built.start, json.dumps(request))


def _memory(limits: Limits) -> tuple[int, int]:
    most = limits.memory_bytes // MIB
    return min(_MEMORY_REQUEST_MIB, most), most


def _capabilities(reason: str, *, available: bool) -> Capabilities:
    return Capabilities(
        name=_NAME,
        available=available,
        reason=reason,
        isolation=Isolation.USERSPACE_KERNEL,
        limits=LimitSupport(memory=Enforcement.ENFORCED, cpu=Enforcement.ENFORCED),
        workspaces=WorkspacePlace.THERE,
    )
