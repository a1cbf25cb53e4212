"""Locks of profiles' files as leases in the database, so that the dead hold no locks."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

import sqlalchemy as sa

from agent_service.storage.schema import profile_lock
from services.database import Database, insert_ignore
from services.database.leases import Fenced, Lease, LeaseTable, Owner
from services.errors import Unavailable
from services.lifecycle import unbroken

LEASE_S = 4.0
"""Half of what others wait, so that a dead replica blocks nobody. A slower write is fenced if
another holder has come since."""
_SHORTEST_LOOK_MS = 2
_LOOKS_MS = 8

_ADD = insert_ignore(profile_lock)


class _Here(asyncio.Lock):
    """A lock within one replica; it exists while it is held or awaited."""

    was_held = False


class RowLocks:
    """Locks that one replica holds at a time; its tasks hold them one after another."""

    def __init__(
        self, database: Database, owner: Owner, wait_s: float, *, lease_s: float = LEASE_S
    ) -> None:
        self._database = database
        self._owner = owner
        self._wait_s = wait_s
        self._leases = LeaseTable(profile_lock, ttl_s=lease_s)
        self._here: WeakValueDictionary[str, _Here] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, profile: str, path: str) -> AsyncGenerator[Lease]:
        name = f"{profile}/{path}"
        here = self._here.setdefault(name, _Here())
        try:
            async with asyncio.timeout(self._wait_s):
                await here.acquire()
        except TimeoutError:
            raise _lock_unavailable(path) from None
        try:
            if here.was_held:
                await _others_first()
            lease = await self._claimed(name, path)
            try:
                yield lease
            finally:
                # Even if cancelled, so that nobody waits for the lease to expire.
                await unbroken(self._release(lease))
        finally:
            here.was_held = True
            here.release()

    def fence(self, conn: sa.Connection, lease: Lease) -> None:
        """Begin a write under the lock; Fenced if it was lost."""
        self._leases.fence(conn, lease)

    async def recover(self) -> None:
        """Release what this instance held before a restart."""
        await self._database.write(lambda conn: self._leases.clear_earlier_boots(conn, self._owner))

    async def _claimed(self, name: str, path: str) -> Lease:
        try:
            async with asyncio.timeout(self._wait_s):
                while (lease := await self._claim(name)) is None:
                    await _others_first()
        except TimeoutError:
            raise _lock_unavailable(path) from None
        return lease

    async def _claim(self, name: str) -> Lease | None:
        def claim(conn: sa.Connection) -> Lease | None:
            lease = self._leases.claim(conn, name, self._owner)
            if (
                lease is None
                and conn.execute(_ADD, {"id": name, "epoch": 0, "version": 0}).rowcount
            ):
                lease = self._leases.claim(conn, name, self._owner)
            return lease

        return await self._database.write(claim)

    async def _release(self, lease: Lease) -> None:
        with suppress(Fenced):  # the write was made or refused already
            await self._database.write(lambda conn: self._leases.release(conn, lease))


async def _others_first() -> None:
    """Wait a random time, up to the interval at which other waiters look again.

    Otherwise one replica might always be late. A waiter that follows another of its own replica
    waits too: it would nearly always be first, and other replicas would give up.
    """
    wait_ms = _SHORTEST_LOOK_MS + secrets.randbelow(_LOOKS_MS)
    await asyncio.sleep(wait_ms / 1000)


def _lock_unavailable(path: str) -> Unavailable:
    name = path.rpartition("/")[2]
    return Unavailable(f"another program holds {name} of this profile; try again")
