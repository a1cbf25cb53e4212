"""What becomes of what has ended: forgotten after a day, its output earlier if need be."""

import asyncio
import logging
from contextlib import suppress

from executor_service.execs.exec_registry import ExecRegistry
from executor_service.execs.spool import Spool
from executor_service.journal import Journal
from executor_service.metrics import ExecutorMetrics
from executor_service.records.sandboxes import CommandRecord
from executor_service.sandboxes.leases import Leases
from services.clock import Clock
from services.errors import DatabaseUnavailable

KEPT_S = 24 * 3600.0
"""How long what has ended can still be asked about."""
_INTERVAL_S = 600.0
_RETRY_S = 5.0

_log = logging.getLogger(__name__)


class Retention:
    """Removes what is old, and output while there is too much of it."""

    def __init__(
        self, journal: Journal, spool: Spool, leases: Leases, clock: Clock, metrics: ExecutorMetrics
    ) -> None:
        self._journal = journal
        self._spool = spool
        self._leases = leases
        self._clock = clock
        metrics.spool_bytes.set_function(lambda: spool.stored_bytes)

    async def run(self) -> None:
        """Removes what is due, until cancelled."""
        while True:
            try:
                await self.forget_old()
                await self.make_room()
            except DatabaseUnavailable as error:
                _log.warning("nothing old can be removed: %s", error)
                await asyncio.sleep(_RETRY_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_S):
                    await self._spool.over_budget.wait()

    async def forget_old(self) -> None:
        """Forgets commands that ended a day ago, and sandboxes that did."""
        before = self._clock.now().timestamp() - KEPT_S
        for registry, record in self._ended():
            if (record.ended_at or 0) < before:
                await registry.forget(record)
        for sandbox in self._leases:
            ended_at = sandbox.claim.ended_at
            if ended_at is not None and ended_at < before:
                self._leases.forget(sandbox)
                await self._spool.remove_sandbox(sandbox.claim.sandbox_id)
                await self._journal.forget_sandbox(sandbox.claim.sandbox_id)

    async def make_room(self) -> None:
        """Removes output until there is not too much: of ended commands first, the oldest first."""
        for registry, record in self._ended():
            if record.stored_bytes and self._spool.over_budget.is_set():
                await registry.forget_output(record)
        while self._spool.over_budget.is_set() and self._shrink_largest():
            pass
        if self._spool.over_budget.is_set():
            _log.warning("the output of running commands takes more room than it should")
            await asyncio.sleep(_RETRY_S)

    def _ended(self) -> list[tuple[ExecRegistry, CommandRecord]]:
        """The commands that have ended, the oldest first."""
        registries = [sandbox.registry for sandbox in self._leases]
        found = [
            (registry, record)
            for registry in registries
            for record in registry.ended_records.values()
        ]
        return sorted(found, key=lambda one: one[1].ended_at or 0)

    def _shrink_largest(self) -> bool:
        running = (command for sandbox in self._leases for command in sandbox.running)
        largest = max(running, key=lambda command: command.spool.stored_bytes, default=None)
        return largest is not None and largest.spool.shrink()
