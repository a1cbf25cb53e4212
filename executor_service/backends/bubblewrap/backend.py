"""Boxes made by bubblewrap: namespaces of the host's own kernel, over the host's read-only /usr.

A box sees /usr, a few files of /etc, its workspace and file systems in memory; no home folder, no
network, no device but the harmless ones. Its processes are those of an ordinary user, without any
privilege and behind the sandboxes' system call filter. It needs no daemon and lives on when the
executor dies.
"""

import asyncio
import secrets
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

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
from executor_service.backends.bubblewrap.host import (
    Host,
    counts_processes_per_namespace,
    find_host,
    why_refused,
    write_own_etc,
)
from executor_service.backends.bubblewrap.start import Parts, start_box
from executor_service.backends.cgroups import Cgroups
from executor_service.backends.making import made
from executor_service.backends.process_boxes import SUPERVISOR_IN_BOX, ProcessBoxes
from executor_service.backends.process_records import Records
from executor_service.errors import BackendError, BackendUnavailable, BoxCreateFailed, BoxLost
from executor_service.link.socket_stream import SocketStream
from executor_service.seccomp import ProfileError, sandbox_filter
from executor_service.supervisor_zipapp import install_supervisor

_NAME = "bubblewrap"


class BubblewrapBackend:
    """Makes boxes with bubblewrap and keeps their records below one folder."""

    def __init__(
        self,
        owner: str,
        folder: Path,
        supervisor: bytes,
        find: Callable[[], Host] = find_host,
    ) -> None:
        self._owner = owner
        self._find = find
        self._folder = folder
        self._supervisor = supervisor
        self._records = Records(folder / "boxes")
        self._boxes = ProcessBoxes(_NAME, owner, self._records, extra_pids=1)
        self._settling = threading.Lock()
        self._parts: Parts | None = None
        self._cgroups = Cgroups(())

    async def probe(self) -> Capabilities:
        """Make a box and look what came of it; found out once."""
        try:
            await asyncio.to_thread(self._settle)
        except BackendError as error:
            return self._capabilities(available=False, reason=str(error))
        unlimited = [name for name in ("memory", "cpu") if name not in self._cgroups.controllers]
        but = f"; no control group limits {' and '.join(unlimited)} here" if unlimited else ""
        return self._capabilities(available=True, reason=f"over the host's read-only /usr{but}")

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

    def _settle(self) -> Parts:
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

    def _try_a_box(self, cgroups: Cgroups) -> Parts:
        parts = self._make_parts(cgroups)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="probe-") as workspace:
            key = f"probe_{secrets.token_hex(8)}"
            limits = Limits(memory_bytes=256 * MIB, cpu_count=1)
            self._create(
                BoxSpec(key, self._owner, "probe", Path(workspace), limits), parts, cgroups
            )
            self._boxes.destroy(key)
        return parts

    def _make_parts(self, cgroups: Cgroups) -> Parts:
        try:
            filter_ = sandbox_filter()
        except ProfileError as error:
            raise BackendUnavailable(str(error)) from error
        own_etc = self._folder / "etc"
        write_own_etc(own_etc)
        return Parts(
            host=self._find(),
            supervisor=install_supervisor(self._supervisor, self._folder, SUPERVISOR_IN_BOX),
            own_etc=own_etc,
            filter=filter_,
            limits_processes_itself="pids" not in cgroups.controllers
            and counts_processes_per_namespace(),
        )

    def _settle_and_create(self, spec: BoxSpec) -> Box:
        return self._create(spec, self._settle(), self._cgroups)

    def _create(self, spec: BoxSpec, parts: Parts, cgroups: Cgroups) -> Box:
        return self._boxes.create(spec, lambda order: start_box(order, parts), cgroups, why_refused)

    def _capabilities(self, available: bool, reason: str) -> Capabilities:
        def held(controller: str) -> Enforcement:
            by_kernel = controller in self._cgroups.controllers
            return Enforcement.ENFORCED if by_kernel else Enforcement.NONE

        by_supervisor = self._parts is not None and self._parts.limits_processes_itself
        return Capabilities(
            name=_NAME,
            available=available,
            reason=reason,
            isolation=Isolation.NAMESPACE,
            limits=LimitSupport(
                memory=held("memory"),
                cpu=held("cpu"),
                pids=Enforcement.ENFORCED if by_supervisor else held("pids"),
                tmp=Enforcement.ENFORCED,
                workspace=Enforcement.NONE,
            ),
        )
