"""What the backends have in common whose boxes are processes behind a wall of this machine."""

import asyncio
import secrets
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from executor_service.backends.base import MIB, Box, BoxSpec, Capabilities, Limits
from executor_service.backends.cgroups import Cgroups
from executor_service.backends.making import made
from executor_service.backends.process_boxes import ProcessBoxes, Start
from executor_service.backends.process_records import Records
from executor_service.errors import BackendError, BackendUnavailable, BoxCreateFailed, BoxLost
from executor_service.link.socket_stream import SocketStream
from executor_service.seccomp import ProfileError, sandbox_filter

_Parts = TypeVar("_Parts")


class ProcessBackend(ABC, Generic[_Parts]):
    """Makes boxes of some parts, which are found once, and keeps their records below a folder."""

    name: str
    extra_pids = 0
    """Processes outside of a box that are in its control groups."""

    def __init__(self, owner: str, folder: Path, supervisor: bytes) -> None:
        self._owner = owner
        self._folder = folder
        self._supervisor = supervisor
        self._records = Records(folder / "boxes")
        self._boxes = ProcessBoxes(self.name, owner, self._records, self.extra_pids)
        self._settling = threading.Lock()
        self._parts: _Parts | None = None
        self._cgroups = Cgroups(())

    @abstractmethod
    def _make_parts(self, cgroups: Cgroups) -> _Parts:
        """What boxes are made from; BackendUnavailable says what is missing. Blocks."""

    @abstractmethod
    def _start(self, parts: _Parts) -> Start:
        """How a box is started from parts."""

    @abstractmethod
    def _why(self, said: str) -> str:
        """What to do about the last words of what makes boxes."""

    @abstractmethod
    def _capabilities(self, parts: _Parts | None, reason: str) -> Capabilities:
        """What was found; without parts no box can be made, for this reason."""

    async def probe(self) -> Capabilities:
        """Make a box and look what came of it; found out once."""
        try:
            return self._capabilities(await asyncio.to_thread(self._settle), "")
        except BackendError as error:
            return self._capabilities(None, str(error))

    async def create(self, spec: BoxSpec) -> Box:
        """Make a box whose supervisor is listening; BackendUnavailable or BoxCreateFailed."""
        return await made(asyncio.to_thread(self._settle_and_create, spec), self.destroy)

    async def connect(self, box: Box) -> SocketStream:
        """Open a new stream to the box's supervisor, as often as wanted; BoxLost if it is gone."""
        try:
            return SocketStream(await asyncio.to_thread(self._records.connect, box.key))
        except OSError as error:
            raise BoxLost(f"box {box.key} does not answer: {error}") from error

    async def destroy(self, box: Box) -> None:
        """End every process of the box and remove it, not its workspace; no error if gone."""
        await asyncio.to_thread(self._boxes.destroy, box.key)

    async def list_boxes(self) -> list[Box]:
        """All living boxes of this owner, those made before this process started included."""
        return await asyncio.to_thread(self._boxes.list)

    async def close(self) -> None:
        """Hold nothing any more; the boxes live on."""
        await asyncio.to_thread(self._boxes.close)

    # ---- what follows blocks, and runs in threads

    def _settle(self) -> _Parts:
        """Find out once what this machine offers, by making a box."""
        with self._settling:
            if self._parts is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                cgroups = Cgroups.find()
                cgroups.sweep()
                try:
                    self._parts = self._try_a_box(cgroups)
                except BoxCreateFailed:
                    if not cgroups.controllers:
                        raise
                    cgroups = Cgroups(())
                    self._parts = self._try_a_box(cgroups)
                self._cgroups = cgroups
            return self._parts

    def _try_a_box(self, cgroups: Cgroups) -> _Parts:
        parts = self._make_parts(cgroups)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="probe-") as workspace:
            key = f"probe_{secrets.token_hex(8)}"
            limits = Limits(memory_bytes=256 * MIB, cpu_count=1)
            spec = BoxSpec(key, self._owner, "probe", Path(workspace), limits)
            self._create(spec, parts, cgroups)
            self._boxes.destroy(key)
        return parts

    def _settle_and_create(self, spec: BoxSpec) -> Box:
        return self._create(spec, self._settle(), self._cgroups)

    def _create(self, spec: BoxSpec, parts: _Parts, cgroups: Cgroups) -> Box:
        why: Callable[[str], str] = self._why
        return self._boxes.create(spec, self._start(parts), cgroups, why)


def system_call_filter() -> bytes:
    """The filter that boxes are held to; BackendUnavailable where there is none."""
    try:
        return sandbox_filter()
    except ProfileError as error:
        raise BackendUnavailable(str(error)) from error
