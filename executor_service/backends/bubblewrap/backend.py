"""Boxes made by bubblewrap: namespaces of the host's own kernel, over the host's read-only /usr.

A box sees /usr, a few files of /etc, its workspace and file systems in memory; no home folder, no
network, no device but the harmless ones. Its processes are those of an ordinary user, without any
privilege and behind the sandboxes' system call filter. It needs no daemon and lives on when the
executor dies.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from executor_service.backends.base import Capabilities, Enforcement, LimitSupport
from executor_service.backends.bubblewrap.host import (
    Host,
    counts_processes_per_namespace,
    find_host,
    why_refused,
    write_own_etc,
)
from executor_service.backends.bubblewrap.start import Parts, start_box
from executor_service.backends.cgroups import Cgroups
from executor_service.backends.process_backend import ProcessBackend, system_call_filter
from executor_service.backends.process_boxes import SUPERVISOR_IN_BOX, Order, Started
from executor_service.backends.supervisor_zipapp import install_supervisor
from executor_service.records.sandboxes import Isolation


class BubblewrapBackend(ProcessBackend[Parts]):
    """Makes boxes with bubblewrap."""

    name = "bubblewrap"
    extra_pids = 1

    def __init__(
        self, owner: str, folder: Path, supervisor: bytes, find: Callable[[], Host] = find_host
    ) -> None:
        super().__init__(owner, folder, supervisor)
        self._find = find

    def _make_parts(self, cgroups: Cgroups) -> Parts:
        filter_ = system_call_filter()
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

    def _start(self, order: Order, parts: Parts) -> AbstractContextManager[Started]:
        return start_box(order, parts)

    def _why(self, said: str) -> str:
        return why_refused(said)

    def _capabilities(self, parts: Parts | None, reason: str) -> Capabilities:
        held = self._cgroups.enforcement
        unlimited = [name for name in ("memory", "cpu") if name not in self._cgroups.controllers]
        but = f"; no control group limits {' and '.join(unlimited)} here" if unlimited else ""
        by_supervisor = parts is not None and parts.limits_processes_itself
        return Capabilities(
            name=self.name,
            available=parts is not None,
            reason=reason or f"over the host's read-only /usr{but}",
            isolation=Isolation.NAMESPACE,
            limits=LimitSupport(
                memory=held("memory"),
                cpu=held("cpu"),
                pids=Enforcement.ENFORCED if by_supervisor else held("pids"),
                tmp=Enforcement.ENFORCED,
            ),
        )
