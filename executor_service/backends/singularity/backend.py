"""Boxes made by Apptainer or Singularity: an image in namespaces of the host's own kernel.

It is for machines where no container engine may run, such as those of a computing centre. A box
sees its image, read-only, its workspace and file systems in memory. It needs no daemon and lives
on when the executor dies.
"""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec.structs import replace

from executor_service.backends.base import Capabilities, Enforcement, LimitSupport
from executor_service.backends.bubblewrap.host import counts_processes_per_namespace
from executor_service.backends.cgroups import Cgroups
from executor_service.backends.process_backend import ProcessBackend, system_call_filter
from executor_service.backends.process_boxes import SUPERVISOR_IN_BOX, Order, Started
from executor_service.backends.singularity.probe import ProbeResult, find_program, look_at
from executor_service.backends.singularity.start import Parts, start_box
from executor_service.backends.supervisor_zipapp import install_supervisor
from executor_service.config import SingularityConfig
from executor_service.records.sandboxes import Isolation


class SingularityBackend(ProcessBackend[Parts]):
    """Makes boxes with Apptainer."""

    name = "singularity"

    def __init__(
        self, owner: str, folder: Path, supervisor: bytes, options: SingularityConfig
    ) -> None:
        super().__init__(owner, folder, supervisor)
        self._options = options
        self._found: ProbeResult | None = None

    def _make_parts(self, cgroups: Cgroups) -> Parts:
        memory = self._folder / "memory"
        memory.mkdir(exist_ok=True)
        parts = Parts(
            program=find_program(self._options.program),
            image=self._options.image,
            supervisor=install_supervisor(self._supervisor, self._folder, SUPERVISOR_IN_BOX),
            filter=system_call_filter(),
            memory=memory if os.geteuid() == 0 else None,
            limits_processes_itself=False,
        )
        self._found = self._found or look_at(parts)
        may_count = self._found.has_own_users and counts_processes_per_namespace()
        itself = may_count and "pids" not in cgroups.controllers
        return replace(parts, limits_processes_itself=itself)

    def _start(self, order: Order, parts: Parts) -> AbstractContextManager[Started]:
        return start_box(order, parts)

    def _why(self, said: str) -> str:
        return f"Apptainer cannot make a box here: {said}"

    def _capabilities(self, parts: Parts | None, reason: str) -> Capabilities:
        held, found = self._cgroups.enforcement, self._found
        limits = LimitSupport()
        if parts is not None and found is not None:
            pids = Enforcement.ENFORCED if parts.limits_processes_itself else held("pids")
            tmp = Enforcement.ENFORCED if found.holds_tmp else Enforcement.NONE
            limits = LimitSupport(held("memory"), held("cpu"), pids, tmp)
            reason = found.describe(limits)
        return Capabilities(self.name, parts is not None, reason, Isolation.NAMESPACE, limits)
