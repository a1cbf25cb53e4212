"""Locks of profiles' files in the database: leases, so that nobody who dies keeps one."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

import sqlalchemy as sa

from agent_service.storage.schema import profile_lock
from services.database import Database, db_now, insert_ignore
from services.database.leases import Fenced, Lease, LeaseTable, Owner
from services.errors import Unavailable
from services.lifecycle import unbroken

LEASE_S = 4.0
"""Half of what others wait, so that a replica that died holds nobody up. What takes longer is
refused by the fence if somebody else has come meanwhile."""
_SHORTEST_LOOK_MS = 2
_LOOKS_MS = 8

_ADD = insert_ignore(profile_lock)
_FREE = sa.select(profile_lock.c.id).where(
    profile_lock.c.id == sa.bindparam("name"),
    sa.or_(profile_lock.c.owner.is_(None), profile_lock.c.lease_until < db_now()),
)


class _Here(asyncio.Lock):
    """Of one replica; there for as long as somebody in it holds the file or waits for it."""

    was_held = False


class RowLocks:
    """Held by one replica at a time; within it, one after another."""

    def __init__(
        self, database: Database, owner: Owner, wait_s: float, *, lease_s: float = LEASE_S
    ) -> None:
        self._database = database
        self._owner = owner
        self._wait_s = wait_s
        self._leases = LeaseTable(profile_lock, ttl_s=lease_s)
        self._here: WeakValueDictionary[str, _Here] = WeakValueDictionary()

    @asynccontextmanager
    async def held(self, profile: str, path: str) -> AsyncGenerator[Lease]:
        """Nobody else changes the file until the context is left, or the lease is fenced."""
        name = f"{profile}/{path}"
        here = self._here.setdefault(name, _Here())
        try:
            async with asyncio.timeout(self._wait_s):
                await here.acquire()
        except TimeoutError:
            raise _held(path) from None
        try:
            if here.was_held:
                await _others_first()
            lease = await self._claimed(name, path)
            try:
                yield lease
            finally:
                # Also when the caller goes away, so that nobody waits for the lease's end.
                await unbroken(self._release(lease))
        finally:
            here.was_held = True
            here.release()

    def fence(self, conn: sa.Connection, lease: Lease) -> None:
        """Begin a write to what is held; Fenced where somebody else holds it by now."""
        self._leases.fence(conn, lease)

    async def recover(self) -> None:
        """Free what this instance held in an earlier life."""
        await self._database.write(lambda conn: self._leases.clear_earlier_boots(conn, self._owner))

    async def _claimed(self, name: str, path: str) -> Lease:
        try:
            async with asyncio.timeout(self._wait_s):
                while (lease := await self._claim(name)) is None:
                    is_free = False
                    while not is_free:
                        await _others_first()
                        is_free = await self._is_free(name)
        except TimeoutError:
            raise _held(path) from None
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

    async def _is_free(self, name: str) -> bool:
        row = await self._database.read(lambda conn: conn.execute(_FREE, {"name": name}).scalar())
        return row is not None

    async def _release(self, lease: Lease) -> None:
        with suppress(Fenced):  # what was to be written is, or was refused
            await self._database.write(lambda conn: self._leases.release(conn, lease))


async def _others_first() -> None:
    """Wait for as long as whoever else waits may take until they look again.

    By chance, so that no replica always comes just too late. Who follows another of its own replica
    waits as well: it would nearly always be the first, and those of the others would give up.
    """
    wait_ms = _SHORTEST_LOOK_MS + secrets.randbelow(_LOOKS_MS)
    await asyncio.sleep(wait_ms / 1000)


def _held(path: str) -> Unavailable:
    name = path.rpartition("/")[2]
    return Unavailable(f"another program holds {name} of this profile; try again")
