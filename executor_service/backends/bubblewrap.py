"""Boxes made by bubblewrap: namespaces of the host's own kernel, over the host's read-only /usr.

A box sees /usr, a few files of /etc, its workspace and file systems in memory; no home folder, no
network, no device but the harmless ones. Its processes are those of an ordinary user, without any
privilege and behind the sandboxes' system call filter. It needs no daemon and lives on when the
executor dies.
"""

import asyncio
import os
import re
import secrets
import subprocess
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
from executor_service.backends.bubblewrap_host import (
    BOX_USER,
    Host,
    counts_processes_per_namespace,
    find_host,
    why_refused,
    write_own_etc,
)
from executor_service.backends.bubblewrap_records import (
    ProcessMark,
    Record,
    Records,
    end_processes,
)
from executor_service.backends.bubblewrap_start import (
    SUPERVISOR_IN_BOX,
    ControlGroups,
    Parts,
    Started,
    start_box,
)
from executor_service.backends.cgroups import Cgroups
from executor_service.errors import BackendError, BackendUnavailable, BoxCreateFailed, BoxLost
from executor_service.link.socket_stream import SocketStream
from executor_service.seccomp import ProfileError, sandbox_filter
from executor_service.supervisor_zipapp import install_supervisor

_NAME = "bubblewrap"
_KEY = re.compile("[a-z0-9_]{1,64}")


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
        self._monitors: dict[str, subprocess.Popen[bytes]] = {}
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
        making = asyncio.ensure_future(asyncio.to_thread(self._settle_and_create, spec))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            # The thread goes on all the same; what it makes must not be left behind.
            await asyncio.wait([making])
            if not making.exception():
                await self.destroy(making.result())
            raise

    async def connect(self, box: Box) -> SocketStream:
        """Open a new stream to the box's supervisor, as often as wanted; BoxLost if it is gone."""
        try:
            return SocketStream(await asyncio.to_thread(self._records.connect, box.key))
        except OSError as error:
            raise BoxLost(f"box {box.key} does not answer: {error}") from error

    async def destroy(self, box: Box) -> None:
        """End every process of the box and remove it, not its workspace; no error if gone."""
        await asyncio.to_thread(self._destroy, box.key)

    async def list_boxes(self) -> list[Box]:
        """All living boxes of this owner, those made before this process started included."""
        return await asyncio.to_thread(self._list)

    async def close(self) -> None:
        """Nothing is held between calls that could be released; the boxes live on."""

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
            self._destroy(key)
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
        if not _KEY.fullmatch(spec.box_key):
            raise BoxCreateFailed(f"{spec.box_key!r} cannot be the key of a box")
        if not spec.workspace.is_dir():
            raise BoxCreateFailed(f"the workspace {spec.workspace} is not a folder")
        if os.geteuid() == 0 and spec.workspace.stat().st_uid == 0:
            os.chown(spec.workspace, BOX_USER, BOX_USER)
        try:
            self._records.prepare(spec.box_key)
        except FileExistsError as error:
            raise BoxCreateFailed(f"there is a box {spec.box_key} already") from error
        try:
            return self._start(spec, parts, cgroups)
        except (OSError, BoxCreateFailed) as error:
            said = self._records.last_error(spec.box_key)
            self._records.forget(spec.box_key)
            raise BoxCreateFailed(why_refused(said or str(error))) from error

    def _start(self, spec: BoxSpec, parts: Parts, cgroups: Cgroups) -> Box:
        key, secret = spec.box_key, secrets.token_hex(32)
        groups = cgroups.make(key, spec.limits, extra_pids=1)
        try:
            with self._records.listener(key) as listener, self._records.errors(key) as errors:
                shown = ControlGroups(groups, cgroups.shown(groups))
                with start_box(spec, parts, secret, shown, listener, errors) as started:
                    record = self._remember(spec, secret, groups, started)
        except BaseException:
            cgroups.remove(groups)
            raise
        self._monitors[key] = started.monitor
        return record.to_box(_NAME)

    def _remember(self, spec: BoxSpec, secret: str, groups: list[Path], started: Started) -> Record:
        monitor, first = ProcessMark.of(started.monitor.pid), ProcessMark.of(started.first_pid)
        if monitor is None or first is None:
            raise BoxCreateFailed("the box ended as soon as it had started")
        place = (self._owner, spec.pool, str(spec.workspace))
        record = Record(spec.box_key, *place, secret, monitor, first, tuple(map(str, groups)))
        self._records.store(record)
        return record

    def _destroy(self, key: str) -> None:
        record = self._records.load(key)
        if record is not None:
            if not end_processes(record):
                raise BackendError(f"processes of box {key} cannot be killed")
            Cgroups.remove([Path(group) for group in record.control_groups])
            self._records.forget(key)
        monitor = self._monitors.pop(key, None)
        if monitor is not None:
            monitor.wait()

    def _list(self) -> list[Box]:
        living: list[Box] = []
        for record in self._records.all():
            if record.owner != self._owner:
                continue
            if record.first.lives():
                living.append(record.to_box(_NAME))
            else:
                self._destroy(record.key)
        return living

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
