"""Orphans: boxes of this installation that no claim knows, left by an executor that died.

An engine completes a request even if the executor is gone, so a box may appear after the next
executor has looked. That is why the reaper keeps looking.
"""

import asyncio
import logging
from collections.abc import Callable, Set
from pathlib import Path

from executor_service.backends.base import Backend, Box
from executor_service.errors import BackendError
from executor_service.metrics import ExecutorMetrics
from executor_service.workspaces.catalog import Catalog
from executor_service.workspaces.folders import Workspaces
from services.errors import DatabaseUnavailable
from services.lifecycle import each_of

_LOOK_EVERY_S = 60.0
_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0

_log = logging.getLogger(__name__)


class OrphanReaper:
    """Finds orphans and ends them."""

    def __init__(
        self,
        backend: Backend,
        workspaces: Workspaces,
        catalog: Catalog,
        is_ours: Callable[[Box], bool],
        known: Callable[[], Set[str]],
        metrics: ExecutorMetrics,
    ) -> None:
        self._backend = backend
        self._workspaces = workspaces
        self._catalog = catalog
        self._is_ours = is_ours
        self._known = known
        self._metrics = metrics
        self._ending: dict[str, Path] = {}
        """By key, the workspaces of boxes that are being ended."""
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def run(self) -> None:
        """Sweeps every minute, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await self.sweep()

    async def sweep(self) -> None:
        """Ends all orphans and waits until they are gone."""
        try:
            orphans = await self.find()
            await each_of(map(self.end, orphans))
        except (BackendError, DatabaseUnavailable, OSError) as error:
            _log.warning("orphaned boxes cannot be listed: %s", error)
            return
        await self._quiet.wait()

    async def wait_free(self, folder: Path) -> None:
        """Waits until no orphan that is being ended uses a folder."""
        while folder in self._ending.values():
            await self._quiet.wait()

    async def find(self) -> list[Box]:
        # Known boxes first, because a box may end during the listing.
        known = self._known()
        boxes = await self.boxes()
        known |= self._known()
        return [box for box in boxes if box.key not in known]

    async def boxes(self) -> list[Box]:
        """Returns all boxes of the template, known or not; fails with BackendError."""
        return [box for box in await self._backend.list_boxes() if self._is_ours(box)]

    async def end(self, box: Box) -> None:
        if box.key in self._ending:
            return
        self._ending[box.key] = box.workspace
        self._quiet.clear()
        try:
            self._metrics.reaped.inc()
            _log.info("ending box %s, which no session has claimed", box.key)
            await destroy(self._backend, box)
            # A workspace in the catalog is still a session's.
            if self._catalog.get(box.workspace.name) is None:
                await self._workspaces.discard(box.workspace, self._backend)
        finally:
            self._ending.pop(box.key, None)
            if not self._ending:
                self._quiet.set()


async def destroy(backend: Backend, box: Box) -> None:
    """Destroys a box, and retries until it is gone."""
    retry_s = _FIRST_RETRY_S
    while True:
        try:
            return await backend.destroy(box)
        except BackendError as error:
            _log.warning("box %s cannot be removed, next try in %g s: %s", box.key, retry_s, error)
        await asyncio.sleep(retry_s)
        retry_s = min(2 * retry_s, _LONGEST_RETRY_S)
