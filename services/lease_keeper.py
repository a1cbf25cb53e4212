"""Keeps the leases of a process: renews them, and says when one is lost."""

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial

from msgspec import Struct

from services.clock import Clock
from services.database import Database, DatabaseUnavailable
from services.leases import Lease, LeaseTable

_log = logging.getLogger(__name__)

_RENEW_AFTER = 1 / 3
_STOP_AFTER = 0.8
_LOOK_EVERY = 1 / 30


class _Held(Struct):
    lease: Lease
    on_lost: Callable[[], object]
    renewed_at: float
    """Before the renewal was sent, by the monotonic clock: the database counted from later on."""


class LeaseKeeper:
    """Renews all leases of a table that this process holds, in one write.

    A lease of 30 s is renewed every 10 s and given up at 24 s without a renewal. The clock counts
    the time that the machine was suspended, so that a laptop that wakes up gives up first.
    """

    def __init__(self, database: Database, leases: LeaseTable, clock: Clock) -> None:
        self._database = database
        self._leases = leases
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def hold(self, lease: Lease, since: float, on_lost: Callable[[], object]) -> None:
        """Renew the lease until `drop`; `since` is the monotonic time before it was claimed."""
        earlier = self._held.pop(lease.id, None)
        if earlier is not None:
            self._lose([earlier], "was claimed again")
        self._held[lease.id] = _Held(lease, on_lost, since)

    def drop(self, lease: Lease) -> None:
        """Renew the lease no more; it was released, or its work is done."""
        held = self._held.get(lease.id)
        if held is not None and held.lease.epoch == lease.epoch:
            del self._held[lease.id]

    async def run(self) -> None:
        """Keep the leases until cancelled; whatever is held then is lost."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renew_again_and_again())
                group.create_task(self._stop_in_time())
        finally:
            self._lose(list(self._held.values()), "is no longer renewed")

    async def _renew_again_and_again(self) -> None:
        ttl_s = self._leases.ttl_s
        while True:
            renewed = await self._renew()
            await self._clock.sleep(ttl_s * (_RENEW_AFTER if renewed else _LOOK_EVERY))

    async def _stop_in_time(self) -> None:
        # On its own, as a renewal may hang for as long as a cut connection takes to be noticed.
        ttl_s = self._leases.ttl_s
        while True:
            await self._clock.sleep(ttl_s * _LOOK_EVERY)
            too_long_ago = self._clock.monotonic() - ttl_s * _STOP_AFTER
            late = [held for held in self._held.values() if held.renewed_at <= too_long_ago]
            self._lose(late, "could not be renewed in time")

    async def _renew(self) -> bool:
        renewing = list(self._held.values())
        if not renewing:
            return True
        since = self._clock.monotonic()
        leases = [held.lease for held in renewing]
        try:
            kept = await self._database.write(partial(self._leases.renew, leases=leases))
        except DatabaseUnavailable as error:
            _log.warning("%d leases are not renewed yet: %s", len(leases), error)
            return False
        kept_ids = {lease.id for lease in kept}
        for held in renewing:
            if held.lease.id in kept_ids:
                held.renewed_at = since
            elif self._held.get(held.lease.id) is held:
                self._lose([held], "has another owner")
        return True

    def _lose(self, lost: Collection[_Held], why: str) -> None:
        for held in lost:
            self._held.pop(held.lease.id, None)
            _log.warning("the lease of %s, epoch %d, %s", held.lease.id, held.lease.epoch, why)
            held.on_lost()
