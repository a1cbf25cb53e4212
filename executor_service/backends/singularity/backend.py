"""Boxes made by Apptainer or Singularity: an image in namespaces of the host's own kernel.

It is for machines where no container engine may run, such as those of a computing centre. A box
sees its image, read-only, its workspace and file systems in memory. It needs no daemon and lives
on when the executor dies.
"""

import asyncio
import os
import secrets
import tempfile
import threading
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from executor_service.backends.base import (
    MIB,
    Box,
    BoxSpec,
    Capabilities,
    Enforcement,
    Isolation,
    Limits,
    LimitSupport,
)
from executor_service.backends.bubblewrap.host import counts_processes_per_namespace
from executor_service.backends.cgroups import Cgroups
from executor_service.backends.making import made
from executor_service.backends.process_boxes import SUPERVISOR_IN_BOX, ProcessBoxes
from executor_service.backends.process_records import Records
from executor_service.backends.singularity.probe import Found, find_program, look_at
from executor_service.backends.singularity.start import Parts, start_box
from executor_service.errors import BackendError, BackendUnavailable, BoxCreateFailed, BoxLost
from executor_service.link.socket_stream import SocketStream
from executor_service.seccomp import ProfileError, sandbox_filter
from executor_service.supervisor_zipapp import install_supervisor

_NAME = "singularity"
_NOTHING_HELD = LimitSupport(*[Enforcement.NONE] * 5)


class SingularityOptions(Struct, frozen=True):
    """What an operator may choose."""

    image: str
    """A SIF file, or a folder with a root file system; needs Python 3.8 or newer."""
    program: str = ""
    """Path or name of the program; empty is apptainer, else singularity."""


class _Settled(Struct, frozen=True):
    """What was found out about this machine, once."""

    parts: Parts
    cgroups: Cgroups
    found: Found


class SingularityBackend:
    """Makes boxes with Apptainer and keeps their records below one folder."""

    def __init__(
        self, owner: str, folder: Path, supervisor: bytes, options: SingularityOptions
    ) -> None:
        self._owner = owner
        self._folder = folder
        self._supervisor = supervisor
        self._options = options
        self._records = Records(folder / "boxes")
        self._boxes = ProcessBoxes(_NAME, owner, self._records, extra_pids=0)
        self._settling = threading.Lock()
        self._settled: _Settled | None = None

    async def probe(self) -> Capabilities:
        """Make a box and look what came of it; found out once."""
        try:
            settled = await asyncio.to_thread(self._settle)
        except BackendError as error:
            return Capabilities(_NAME, False, str(error), Isolation.NAMESPACE, _NOTHING_HELD)
        limits = _limits(settled)
        reason = settled.found.describe(limits)
        return Capabilities(_NAME, True, reason, Isolation.NAMESPACE, limits)

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

    def _settle(self) -> _Settled:
        """Find out once what this machine offers, by making a box."""
        with self._settling:
            if self._settled is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                parts = self._make_parts()
                found = look_at(parts)
                may_count = found.has_own_users and counts_processes_per_namespace()
                cgroups = Cgroups.find()
                cgroups.sweep()
                try:
                    parts = self._try_a_box(parts, may_count, cgroups)
                except BoxCreateFailed:
                    if not cgroups.controllers:
                        raise
                    cgroups = Cgroups(())
                    parts = self._try_a_box(parts, may_count, cgroups)
                self._settled = _Settled(parts, cgroups, found)
            return self._settled

    def _make_parts(self) -> Parts:
        try:
            filter_ = sandbox_filter()
        except ProfileError as error:
            raise BackendUnavailable(str(error)) from error
        memory = self._folder / "memory"
        memory.mkdir(exist_ok=True)
        return Parts(
            program=find_program(self._options.program),
            image=self._options.image,
            supervisor=install_supervisor(self._supervisor, self._folder, SUPERVISOR_IN_BOX),
            filter=filter_,
            memory=memory if os.geteuid() == 0 else None,
            limits_processes_itself=False,
        )

    def _try_a_box(self, parts: Parts, may_count: bool, cgroups: Cgroups) -> Parts:
        itself = may_count and "pids" not in cgroups.controllers
        parts = replace(parts, limits_processes_itself=itself)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="probe-") as workspace:
            key = f"probe_{secrets.token_hex(8)}"
            limits = Limits(memory_bytes=256 * MIB, cpu_count=1)
            spec = BoxSpec(key, self._owner, "probe", Path(workspace), limits)
            self._create(spec, parts, cgroups)
            self._boxes.destroy(key)
        return parts

    def _settle_and_create(self, spec: BoxSpec) -> Box:
        settled = self._settle()
        return self._create(spec, settled.parts, settled.cgroups)

    def _create(self, spec: BoxSpec, parts: Parts, cgroups: Cgroups) -> Box:
        return self._boxes.create(
            spec,
            lambda order: start_box(order, parts),
            cgroups,
            lambda said: f"{Path(parts.program).name} cannot make a box here: {said}",
        )


def _limits(settled: _Settled) -> LimitSupport:
    def held(by_kernel: bool) -> Enforcement:
        return Enforcement.ENFORCED if by_kernel else Enforcement.NONE

    controllers = settled.cgroups.controllers
    return LimitSupport(
        memory=held("memory" in controllers),
        cpu=held("cpu" in controllers),
        pids=held("pids" in controllers or settled.parts.limits_processes_itself),
        tmp=held(settled.found.holds_tmp),
        workspace=Enforcement.NONE,
    )
