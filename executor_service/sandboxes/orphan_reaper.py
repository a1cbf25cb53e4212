"""Boxes that nobody knows: left by an executor that died, or by a call that it did not live to see.

An engine goes on with what it was asked for when the executor is gone, so that a box may appear
after its successor has looked. That is why it looks again.
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
    """Finds the boxes of this installation that nobody knows, and ends them."""

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
        """By key, what those are over that are being ended."""
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def run(self) -> None:
        """Looks now and then, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await self.sweep()

    async def sweep(self) -> None:
        """Ends all that there are now; returns when nothing is left of them."""
        try:
            orphans = await self.find()
            await each_of(map(self.end, orphans))
        except (BackendError, DatabaseUnavailable, OSError) as error:
            _log.warning("boxes that nobody knows cannot be looked for: %s", error)
            return
        await self._quiet.wait()

    async def wait_free(self, folder: Path) -> None:
        """Returns when none of those that are being ended is over a folder."""
        while folder in self._ending.values():
            await self._quiet.wait()

    async def find(self) -> list[Box]:
        """Those that there are now; fails with BackendError."""
        # One that ends while they are listed is still in the list, and known no more.
        known = self._known()
        boxes = await self.boxes()
        known |= self._known()
        return [box for box in boxes if box.key not in known]

    async def boxes(self) -> list[Box]:
        """All boxes that this one answers for, known or not; fails with BackendError."""
        return [box for box in await self._backend.list_boxes() if self._is_ours(box)]

    async def end(self, box: Box) -> None:
        """Ends one, unless that happens already."""
        if box.key in self._ending:
            return
        self._ending[box.key] = box.workspace
        self._quiet.clear()
        try:
            self._metrics.reaped.inc()
            _log.info("ending box %s, which nobody claimed", box.key)
            await destroy(self._backend, box)
            # That of a session whose sandbox was given up is still the session's.
            if self._catalog.get(box.workspace.name) is None:
                await self._workspaces.discard(box.workspace, self._backend)
        finally:
            self._ending.pop(box.key, None)
            if not self._ending:
                self._quiet.set()


async def destroy(backend: Backend, box: Box) -> None:
    """Has a backend end a box, as often as it takes."""
    retry_s = _FIRST_RETRY_S
    while True:
        try:
            return await backend.destroy(box)
        except BackendError as error:
            _log.warning("box %s stays, next try in %g s: %s", box.key, retry_s, error)
        await asyncio.sleep(retry_s)
        retry_s = min(2 * retry_s, _LONGEST_RETRY_S)
