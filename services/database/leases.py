"""Leases: which process works on which row, and how a former owner is kept from writing.

The lease gives liveness: the owner renews it, and once it expires another process takes over. The
epoch gives safety: it grows with each claim, and every write begins with `fence`, which locks the
row and fails for an earlier epoch. (An `INSERT … WHERE EXISTS` of the row would not do: it could
commit after the claim and yet be unseen by the new owner.)

Leases expire by the database's time. An owner that cannot renew stops earlier by its own clock, so
two never believe in the same lease; `LeaseKeeper` does both.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import bindparam

from services.clock import Clock
from services.database import Database, DatabaseUnavailable, Prepared, db_now
from services.database.sql import UtcTime, required
from services.errors import StaleEpoch
from services.ids import new_id

TTL_S = 30.0
EPOCHS = 2**53
"""No real epoch comes near this; a larger one was forged."""
_AT_ONCE = 500  # ids in one statement


class Fenced(StaleEpoch):
    """A later owner has taken over; nothing was written."""


def lease_columns() -> list[sa.Column[Any]]:
    """Return the columns of leased rows; `version` grows with every write."""
    return [
        sa.Column("owner", sa.String(200)),
        *required(sa.BigInteger, "epoch", "version"),
        sa.Column("lease_until", UtcTime),
    ]


class Owner(Struct, frozen=True):
    """A process that holds leases: a named instance and its current boot."""

    instance: str
    boot_id: str

    def __str__(self) -> str:
        return f"{self.instance}/{self.boot_id}"


def new_owner(instance: str) -> Owner:
    """Return the owner for this process."""
    return Owner(instance, new_id("boot"))


class Lease(Struct, frozen=True):
    """A row held by an owner, in the epoch that its claim began."""

    id: str
    owner: str
    epoch: int
    until: datetime
    """By the database's time."""


class LeaseTable:
    """Leases in a table with the columns id, owner, epoch, version and lease_until.

    Build one as a constant. Every method runs in the caller's transaction and also sets the columns
    in `values`, which saves a statement.
    """

    def __init__(
        self,
        table: sa.Table,
        *,
        claimable: sa.ColumnElement[bool] | None = None,
        ttl_s: float = TTL_S,
    ) -> None:
        """Take the table, and the condition of rows that may be claimed."""
        self.ttl_s = ttl_s
        self._name = table.name
        row = table.c
        one = bindparam("_id", type_=sa.String())
        some = bindparam("_ids", type_=sa.String(), expanding=True)
        owner = bindparam("_owner", type_=sa.String())
        epoch = bindparam("_epoch", type_=sa.BigInteger())
        held = {"lease_until": db_now(ttl_s)}
        free = sa.or_(row.owner.is_(None), row.lease_until < db_now())
        if claimable is not None:
            free = sa.and_(claimable, free)
        lease = (row.id, row.owner, row.epoch, row.lease_until)
        next_version = {"version": row.version + 1}
        next_epoch: dict[str, Any] = {"owner": owner, "epoch": row.epoch + 1}
        changed = sa.update(table)
        claim = changed.where(free).values({**held, **next_version, **next_epoch}).returning(*lease)
        self._claim_one = Prepared(claim.where(row.id == one))
        self._claim_some = claim.where(row.id.in_(some))
        fence = changed.where(row.id == one, row.owner == owner, row.epoch == epoch).values(
            next_version
        )
        self._fence = Prepared(fence)
        self._release = Prepared(fence.values(owner=None, lease_until=None))
        self._renew = (
            changed.where(row.id.in_(some), row.owner == owner).values(held).returning(*lease)
        )
        self._expire = changed.where(row.owner != owner).values(lease_until=db_now(-ttl_s))
        self._owner = row.owner

    def claim(
        self, connection: sa.Connection, row_id: str, owner: Owner, **values: object
    ) -> Lease | None:
        """Claim a row that is free or whose lease has expired; None if neither."""
        claim = {"_id": row_id, "_owner": str(owner), **values}
        row = self._claim_one.rows(connection, claim).one_or_none()
        return None if row is None else Lease(*row)

    def claim_these(
        self, connection: sa.Connection, owner: Owner, ids: Sequence[str], **values: object
    ) -> list[Lease]:
        """Claim the free ones of some rows that this transaction has locked; by id."""
        claim = {"_ids": ids, "_owner": str(owner), **values}
        claimed = [Lease(*row) for row in connection.execute(self._claim_some, claim)]
        return sorted(claimed, key=lambda lease: lease.id)

    def fence(self, connection: sa.Connection, lease: Lease, **values: object) -> None:
        """Begin a write under the lease; raise Fenced if another owner holds it."""
        self._change(connection, self._fence, lease, values)

    def release(self, connection: sa.Connection, lease: Lease, **values: object) -> None:
        """Free the row to be claimed at once; raise Fenced if it is not ours."""
        self._change(connection, self._release, lease, values)

    def renew(self, connection: sa.Connection, leases: Collection[Lease]) -> list[Lease]:
        """Renew leases of one owner; return those that it still holds, as they are now."""
        ids = sorted(lease.id for lease in leases)
        (owner,) = {lease.owner for lease in leases}
        kept: list[Lease] = []
        for start in range(0, len(ids), _AT_ONCE):
            some = {"_ids": ids[start : start + _AT_ONCE], "_owner": owner}
            kept += [Lease(*row) for row in connection.execute(self._renew, some)]
        epochs = {lease.id: lease.epoch for lease in leases}
        return [lease for lease in kept if epochs[lease.id] == lease.epoch]

    def clear_earlier_boots(self, connection: sa.Connection, owner: Owner) -> int:
        """End the leases of this instance's earlier boots at once; return their number.

        On SQLite, one process at a time has the file, so all other owners are earlier boots. Rows
        keep their owner until they are claimed, which tells the claim that it was lost.
        """
        statement = self._expire
        if connection.dialect.name != "sqlite":
            mine = self._owner.startswith(f"{owner.instance}/", autoescape=True)
            statement = statement.where(mine)
        return connection.execute(statement, {"_owner": str(owner)}).rowcount

    def _change(
        self,
        connection: sa.Connection,
        statement: Prepared,
        lease: Lease,
        values: Mapping[str, object],
    ) -> None:
        whose = {"_id": lease.id, "_owner": lease.owner, "_epoch": lease.epoch}
        if statement.run(connection, whose | dict(values)) != 1:
            raise Fenced(f"{self._name} {lease.id} has another owner")


_log = logging.getLogger(__name__)

_RENEW_AFTER = 1 / 3
_STOP_AFTER = 0.8
_LOOK_EVERY = 1 / 30


class _Held(Struct):
    lease: Lease
    on_lost: Callable[[], object]
    renewed_at: float
    """Monotonic time before the renewal was sent, so never later than the database's start."""


class LeaseKeeper:
    """Renews all leases of a table that this process holds, in one write.

    A lease of 30 s is renewed every 10 s and given up after 24 s without a renewal. The clock
    includes suspended time, so a laptop that wakes up gives up first.
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
        held = self._held.get(lease.id)
        if held is not None and held.lease.epoch == lease.epoch:
            del self._held[lease.id]

    async def run(self) -> None:
        """Renew leases until cancelled; those still held then are lost."""
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
        # Separately, as a renewal may hang until a cut connection is noticed.
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
