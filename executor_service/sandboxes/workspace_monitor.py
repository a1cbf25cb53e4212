"""Enforces the size of workspaces where no kernel or engine does.

A workspace is measured again and again while commands write to it: a small one by this process, a
large or remote one by its store. Each sandbox has its own schedule, so that large workspaces do not
delay the others.
"""

import asyncio
import logging
import math
import time
from collections import defaultdict
from pathlib import Path

from executor_service.backends.base import Enforcement, Size, WorkspacePlace, WorkspaceStore
from executor_service.errors import BackendError
from executor_service.records.sandboxes import EndReason
from executor_service.sandboxes.leases import Leases
from executor_service.sandboxes.sandbox import Sandbox
from executor_service.sandboxes.templates import Templates
from executor_service.sandboxes.workspace_stores import WorkspaceStores
from executor_service.supervisor.trees import measure
from executor_service.workspaces.folders import Workspaces
from services.errors import LimitExceeded

_TICK_S = 0.5
_PAUSE_S = 2.0
_PAUSE_ELSEWHERE_S = 5.0
_SHARE_OF_TIME = 0.2
"""The share of time that may be spent on measuring one workspace."""
_AT_ONCE = 4
"""How many workspaces a store measures at a time, each in its own process."""
_MOST_ENTRIES = 50_000
"""How many entries the executor counts itself before it leaves it to the store."""
_HIDDEN = (
    "the workspace has folders that are too deep or not readable, so its size cannot be measured; "
    "remove them first"
)

_log = logging.getLogger(__name__)


class WorkspaceMonitor:
    """Measures the workspaces that are written to, every few seconds."""

    def __init__(
        self, leases: Leases, workspaces: Workspaces, templates: Templates, stores: WorkspaceStores
    ) -> None:
        self._leases = leases
        self._workspaces = workspaces
        self._templates = templates
        self._stores = stores
        self._due: dict[str, float] = {}
        """When to measure each sandbox's workspace again."""
        self._full: set[str] = set()
        """The sandboxes whose workspaces were full at the last measurement."""
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(_AT_ONCE)
        )
        """Slots of the stores, by place."""
        self._looking = asyncio.Lock()
        """Lets this process measure one workspace at a time."""
        self._written: set[str] = set()
        """The sandboxes that got an upload since the last measurement."""

    async def run(self) -> None:
        """Ends commands that write to full workspaces, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(_TICK_S)
                living = {sandbox.claim.sandbox_id: sandbox for sandbox in self._leases}
                self._full &= living.keys()
                self._written &= living.keys()
                self._due = {ident: due for ident, due in self._due.items() if ident in living}
                for ident, sandbox in living.items():
                    writes = sandbox.running or ident in self._written
                    if writes and time.monotonic() >= self._due.get(ident, 0.0):
                        self._due[ident] = math.inf
                        self._written.discard(ident)
                        group.create_task(self._look(sandbox))

    async def _look(self, sandbox: Sandbox) -> None:
        limit, ident = self._limit_of(sandbox), sandbox.claim.sandbox_id
        if limit is None:
            self._due.pop(ident, None)
            return
        most_bytes, store = limit
        pause_s = _PAUSE_S if store is self._stores.here else _PAUSE_ELSEWHERE_S
        started = time.monotonic()
        try:
            size = await self._measure(sandbox, most_bytes, store)
        except BackendError as error:
            _log.warning("workspaces at %s cannot be measured now: %s", store.place, error)
        else:
            self._note(sandbox, size)
        ended = time.monotonic()
        pause_s = max(pause_s, (ended - started) / _SHARE_OF_TIME)
        self._due[ident] = ended + pause_s

    async def _measure(self, sandbox: Sandbox, most_bytes: int, store: WorkspaceStore) -> Size:
        path = Path(sandbox.claim.workspace)
        if store is self._stores.here:
            async with self._looking:
                size = Size(*await asyncio.to_thread(measure, path, most_bytes, _MOST_ENTRIES))
            if size.is_all or size.seen_bytes > most_bytes:
                return size
        async with self._turns[store.place]:
            sizes = await store.measure({path: most_bytes})
        return sizes.get(path, Size(0, True))

    def _note(self, sandbox: Sandbox, size: Size) -> None:
        if size.is_all:
            self._full.discard(sandbox.claim.sandbox_id)
        else:
            self._full.add(sandbox.claim.sandbox_id)
            _log.warning(
                "sandbox %s has filled its workspace; its commands are ended",
                sandbox.claim.sandbox_id,
            )
            for command in sandbox.running:
                command.cancel(EndReason.DISK_QUOTA)

    async def check_room(self, sandbox: Sandbox, path: str, length: int) -> None:
        """Fails with LimitExceeded if an upload does not fit into the workspace."""
        limit = self._limit_of(sandbox)
        if limit is None:
            return
        most_bytes, store = limit
        ident = sandbox.claim.sandbox_id
        # For any path: a link may lead into the workspace.
        self._written.add(ident)
        if path.startswith("/") and not f"{path}/".startswith("/workspace/"):
            return
        if length > most_bytes:
            raise _full(most_bytes)
        # A remote workspace is measured only if it was full before.
        if store is self._stores.here or ident in self._full:
            await self._check_room(sandbox, most_bytes, store, length)

    async def _check_room(
        self, sandbox: Sandbox, most_bytes: int, store: WorkspaceStore, length: int
    ) -> None:
        try:
            size = await self._measure(sandbox, most_bytes, store)
        except BackendError as error:
            raise LimitExceeded(f"the workspace cannot be measured: {error}") from error
        self._note(sandbox, size)
        if not size.is_all and size.seen_bytes <= most_bytes:
            raise LimitExceeded(_HIDDEN)
        if size.seen_bytes + length > most_bytes:
            raise _full(most_bytes)

    def _limit_of(self, sandbox: Sandbox) -> tuple[int, WorkspaceStore] | None:
        if sandbox.connection is None or not self._workspaces.is_ours(
            Path(sandbox.claim.workspace)
        ):
            return None
        template = self._templates.find_by_box(sandbox.connection.box)
        found = template.capabilities
        store = self._stores.store_for(template)
        can_look = found.workspaces is WorkspacePlace.HERE or found.measures_workspaces
        if found.limits.workspace is not Enforcement.WATCHED or not can_look or store is None:
            return None
        return template.limits.workspace_bytes, store


def _full(most_bytes: int) -> LimitExceeded:
    return LimitExceeded(
        f"the workspace has no room for this: it may take {most_bytes} bytes "
        "(executor.workspace_bytes); remove something first"
    )
