"""The common part of the backends whose boxes are isolated processes of this machine."""

import asyncio
import os
import re
import secrets
import tempfile
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, TypeVar

from executor_service.backends.base import MIB, Box, BoxSpec, Capabilities, Limits, make_or_destroy
from executor_service.backends.cgroups import Cgroups
from executor_service.backends.process_boxes import BOX_USER, Order, Started
from executor_service.backends.process_records import ProcessMark, Record, Records, end_processes
from executor_service.backends.seccomp import ProfileError, sandbox_filter
from executor_service.errors import BackendError, BackendUnavailable, BoxCreateFailed, BoxLost
from executor_service.link.byte_streams import SocketStream

_Parts = TypeVar("_Parts")
_KEY = re.compile("[a-z0-9_]{1,64}")


class ProcessBackend(ABC, Generic[_Parts]):
    """Makes boxes from parts that are found once, and keeps records below a folder."""

    name: str
    extra_pids = 0
    """Processes outside a box that count in its control groups."""

    def __init__(self, owner: str, folder: Path, supervisor: bytes) -> None:
        self._owner = owner
        self._folder = folder
        self._supervisor = supervisor
        self._records = Records(folder / "boxes")
        self._settling = threading.Lock()
        self._parts: _Parts | None = None
        self._cgroups = Cgroups(())

    @abstractmethod
    def _make_parts(self, cgroups: Cgroups) -> _Parts:
        """Find what boxes are made from; fails with BackendUnavailable. Blocks."""

    @abstractmethod
    def _start(self, order: Order, parts: _Parts) -> AbstractContextManager[Started]:
        """Start a box; record it in the block, after which it lives on."""

    @abstractmethod
    def _why(self, said: str) -> str:
        """An error message for the last output of the program that makes boxes."""

    @abstractmethod
    def _capabilities(self, parts: _Parts | None, reason: str) -> Capabilities:
        """The capabilities; without parts no box can be made, for this reason."""

    async def probe(self) -> Capabilities:
        """Make a box to see what works; done once."""
        try:
            return self._capabilities(await asyncio.to_thread(self._settle), "")
        except BackendError as error:
            return self._capabilities(None, str(error))

    async def create(self, spec: BoxSpec) -> Box:
        return await make_or_destroy(asyncio.to_thread(self._settle_and_create, spec), self.destroy)

    async def connect(self, box: Box) -> SocketStream:
        try:
            return SocketStream(await asyncio.to_thread(self._records.connect, box.key))
        except OSError as error:
            raise BoxLost(f"box {box.key} does not answer: {error}") from error

    async def destroy(self, box: Box) -> None:
        await asyncio.to_thread(self._destroy, box.key)

    async def list_boxes(self) -> list[Box]:
        return await asyncio.to_thread(self._list)

    async def close(self) -> None:
        """Do nothing: the boxes live on."""

    # The methods below block and run in threads.

    def _settle(self) -> _Parts:
        """Find out once what this machine supports, by making a box."""
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
            self._destroy(key)
        return parts

    def _settle_and_create(self, spec: BoxSpec) -> Box:
        return self._create(spec, self._settle(), self._cgroups)

    def _create(self, spec: BoxSpec, parts: _Parts, cgroups: Cgroups) -> Box:
        if not _KEY.fullmatch(spec.box_key):
            raise BoxCreateFailed(f"{spec.box_key!r} cannot be the key of a box")
        if not spec.workspace.is_dir():
            raise BoxCreateFailed(f"the workspace {spec.workspace} is not a folder")
        if os.geteuid() == 0 and not spec.is_bound and spec.workspace.stat().st_uid == 0:
            try:
                os.chown(spec.workspace, BOX_USER, BOX_USER)
            except OSError as error:
                raise BoxCreateFailed(
                    f"commands run as user id {BOX_USER}, which a folder cannot be given to here "
                    f"({error.strerror}), as in a user namespace of only root; run Hermes as an "
                    "ordinary user"
                ) from error
        try:
            self._records.prepare(spec.box_key)
        except FileExistsError as error:
            raise BoxCreateFailed(f"there is a box {spec.box_key} already") from error
        try:
            return self._start_and_remember(spec, parts, cgroups)
        except (OSError, BoxCreateFailed) as error:
            said = self._records.last_error(spec.box_key)
            self._records.forget(spec.box_key)
            raise BoxCreateFailed(self._why(said or str(error))) from error

    def _start_and_remember(self, spec: BoxSpec, parts: _Parts, cgroups: Cgroups) -> Box:
        key = spec.box_key
        groups = cgroups.make(key, spec.limits, self.extra_pids)
        try:
            with self._records.listener(key) as listener, self._records.errors(key) as errors:
                order = Order(spec, groups, cgroups.mounts(groups), listener, errors)
                with self._start(order, parts) as started:
                    record = self._remember(order, started)
        except BaseException:
            cgroups.remove(groups)
            raise
        return record.to_box(self.name)

    def _remember(self, order: Order, started: Started) -> Record:
        monitor, first = ProcessMark.read(started.monitor_pid), ProcessMark.read(started.first_pid)
        if monitor is None or first is None:
            raise BoxCreateFailed("the box ended as soon as it had started")
        spec = order.spec
        place = (self._owner, spec.pool, str(spec.workspace))
        groups = tuple(map(str, order.groups))
        record = Record(spec.box_key, *place, monitor, first, groups)
        self._records.store(record)
        return record

    def _destroy(self, key: str) -> None:
        record = self._records.load(key)
        if record is not None and record.owner != self._owner:
            return
        if record is not None:
            if not end_processes(record):
                raise BackendError(f"processes of box {key} cannot be killed")
            Cgroups.remove([Path(group) for group in record.control_groups])
            self._records.forget(key)

    def _list(self) -> list[Box]:
        """The living boxes; leftovers of the others are removed."""
        living: list[Box] = []
        for record in self._records.all():
            if record.owner != self._owner:
                continue
            if record.first.lives():
                living.append(record.to_box(self.name))
            else:
                self._destroy(record.key)
        return living


def system_call_filter() -> bytes:
    """The system call filter of boxes; fails with BackendUnavailable."""
    try:
        return sandbox_filter()
    except ProfileError as error:
        raise BackendUnavailable(str(error)) from error
