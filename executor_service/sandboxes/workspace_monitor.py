"""Enforces the size of this machine's workspaces, where no kernel or engine does.

A workspace is measured again and again while commands write to it: a small one by this process, a
large one by its store. Each sandbox has its own schedule, so that large workspaces do not delay the
others.
"""

import asyncio
import logging
import math
import time
from pathlib import Path

from executor_service.backends.base import Size, WorkspacePlace, WorkspaceStore
from executor_service.errors import BackendError
from executor_service.records.sandboxes import EndReason
from executor_service.sandboxes.leases import Leases
from executor_service.sandboxes.sandbox import Sandbox
from executor_service.sandboxes.templates import Templates
from executor_service.supervisor.trees import measure
from executor_service.workspaces.folders import Workspaces
from services.errors import LimitExceeded

_TICK_S = 0.5
_PAUSE_S = 2.0
_SHARE_OF_TIME = 0.2
"""The share of time that may be spent on measuring one workspace."""
_AT_ONCE = 4
"""How many workspaces the store measures at a time, each in its own process."""
_MOST_ENTRIES = 50_000
"""How many entries the executor counts itself before it leaves it to the store."""

_log = logging.getLogger(__name__)


class WorkspaceMonitor:
    """Measures the workspaces that are written to, every few seconds."""

    def __init__(
        self, leases: Leases, workspaces: Workspaces, templates: Templates, here: WorkspaceStore
    ) -> None:
        """`here` is the store of this machine's workspaces."""
        self._leases = leases
        self._workspaces = workspaces
        self._templates = templates
        self._here = here
        self._due: dict[str, float] = {}
        """When to measure each sandbox's workspace again."""
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._looking = asyncio.Lock()
        """Lets this process measure one workspace at a time."""

    async def run(self) -> None:
        """Ends commands that write to full workspaces, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(_TICK_S)
                living = {sandbox.claim.sandbox_id: sandbox for sandbox in self._leases}
                self._due = {ident: due for ident, due in self._due.items() if ident in living}
                for ident, sandbox in living.items():
                    if sandbox.running and time.monotonic() >= self._due.get(ident, 0.0):
                        self._due[ident] = math.inf
                        group.create_task(self._look(sandbox))

    async def _look(self, sandbox: Sandbox) -> None:
        started, most_bytes = time.monotonic(), self._limit_of(sandbox)
        if most_bytes is not None:
            try:
                size = await self._measure(sandbox, most_bytes)
            except BackendError as error:
                _log.warning("a workspace cannot be measured now: %s", error)
            else:
                if not size.is_all:
                    _end_commands(sandbox)
        ended = time.monotonic()
        pause_s = max(_PAUSE_S, (ended - started) / _SHARE_OF_TIME)
        self._due[sandbox.claim.sandbox_id] = ended + pause_s

    async def _measure(self, sandbox: Sandbox, most_bytes: int) -> Size:
        path = Path(sandbox.claim.workspace)
        async with self._looking:
            size = Size(*await asyncio.to_thread(measure, path, most_bytes, _MOST_ENTRIES))
        if size.is_all or size.seen_bytes > most_bytes:
            return size
        async with self._slots:
            return (await self._here.measure({path: most_bytes}))[path]

    async def check_room(self, sandbox: Sandbox, path: str, length: int) -> None:
        """Fails with LimitExceeded if an upload does not fit into the workspace."""
        most_bytes = self._limit_of(sandbox)
        is_elsewhere = path.startswith("/") and not f"{path}/".startswith("/workspace/")
        if most_bytes is None or is_elsewhere:
            return
        size = await self._measure(sandbox, most_bytes)
        if not size.is_all and size.seen_bytes <= most_bytes:
            raise LimitExceeded(
                "the workspace has folders that are too deep or not readable, so its size cannot "
                "be measured; remove them first"
            )
        if size.seen_bytes + length > most_bytes:
            raise LimitExceeded(
                f"the workspace has no room for this: it may take {most_bytes} bytes "
                "(executor.workspace_bytes); remove something first"
            )

    def _limit_of(self, sandbox: Sandbox) -> int | None:
        is_ours = self._workspaces.is_ours(Path(sandbox.claim.workspace))
        if sandbox.connection is None or not is_ours:
            return None
        template = self._templates.find_by_box(sandbox.connection.box)
        is_here = template.capabilities.workspaces is WorkspacePlace.HERE
        return template.limits.workspace_bytes if is_here else None


def _end_commands(sandbox: Sandbox) -> None:
    ident = sandbox.claim.sandbox_id
    _log.warning("sandbox %s has filled its workspace; its commands are ended", ident)
    for command in sandbox.running:
        command.cancel(EndReason.DISK_QUOTA)
