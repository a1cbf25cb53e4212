"""Leases: which process works on which row, and how a late one is kept from writing.

The lease is liveness: whoever holds a row renews it, and when that stops another process takes the
row over. The epoch is safety: it grows with each claim, and every write begins with `fence`, which
locks the row and fails for an earlier epoch. (An `INSERT … WHERE EXISTS` of the row would not do:
it could commit after the claim and yet be unseen by the new owner.)

Leases end by the database's time. Who cannot renew one stops earlier by its own clock, so that
there are never two who believe in the same lease; `services.lease_keeper` does both.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import bindparam

from services.database import Prepared, db_now
from services.errors import StaleEpoch
from services.ids import new_id

TTL_S = 30.0
EPOCHS = 2**53
"""More than there ever are: a number above was written by somebody else, and leaves no room."""
_AT_ONCE = 500  # ids in one statement


class Fenced(StaleEpoch):
    """A later owner has taken over, so nothing was written."""


class Owner(Struct, frozen=True):
    """A process that holds leases: an instance, which keeps its name, in one of its lives."""

    instance: str
    boot_id: str

    def __str__(self) -> str:
        return f"{self.instance}/{self.boot_id}"


def new_owner(instance: str) -> Owner:
    """Return who this process is until it ends."""
    return Owner(instance, new_id("boot"))


class Lease(Struct, frozen=True):
    """A row that an owner holds, in the epoch that its claim began."""

    id: str
    owner: str
    epoch: int
    until: datetime
    """By the database's time."""


class LeaseTable:
    """Leases in a table that has the columns id, owner, epoch, version and lease_until.

    Build one as a constant. Every method runs in a transaction that the caller has begun, and
    changes the columns in `values` too, which saves a statement.
    """

    def __init__(
        self,
        table: sa.Table,
        *,
        claimable: sa.ColumnElement[bool] | None = None,
        ttl_s: float = TTL_S,
    ) -> None:
        """Take the table, and which rows are to be worked on."""
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
        self._find = (
            sa.select(row.id)
            .where(free)
            .order_by(row.id)
            .limit(bindparam("_limit"))
            .with_for_update(skip_locked=True)
        )
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
        """Take a row that nobody holds, or whose lease has ended; None when that is not so."""
        claim = {"_id": row_id, "_owner": str(owner), **values}
        row = self._claim_one.rows(connection, claim).one_or_none()
        return None if row is None else Lease(*row)

    def claim_free(
        self, connection: sa.Connection, owner: Owner, limit: int, **values: object
    ) -> list[Lease]:
        """Take the first such rows by id, passing over those that another replica is taking."""
        ids = connection.execute(self._find, {"_limit": limit}).scalars().all()
        if not ids:
            return []
        return self.claim_these(connection, owner, ids, **values)

    def claim_these(
        self, connection: sa.Connection, owner: Owner, ids: Sequence[str], **values: object
    ) -> list[Lease]:
        """Take those of some rows, locked by this transaction, that nobody holds; by id."""
        claim = {"_ids": ids, "_owner": str(owner), **values}
        claimed = [Lease(*row) for row in connection.execute(self._claim_some, claim)]
        return sorted(claimed, key=lambda lease: lease.id)

    def fence(self, connection: sa.Connection, lease: Lease, **values: object) -> None:
        """Begin a write to what the lease covers; raise Fenced if somebody else holds it by now."""
        self._change(connection, self._fence, lease, values)

    def release(self, connection: sa.Connection, lease: Lease, **values: object) -> None:
        """Let the row go for anybody to claim at once; raise Fenced if it is not ours."""
        self._change(connection, self._release, lease, values)

    def renew(self, connection: sa.Connection, leases: Collection[Lease]) -> list[Lease]:
        """Prolong leases of one owner; return those that it still has, as they are now."""
        ids = sorted(lease.id for lease in leases)
        (owner,) = {lease.owner for lease in leases}
        kept: list[Lease] = []
        for start in range(0, len(ids), _AT_ONCE):
            some = {"_ids": ids[start : start + _AT_ONCE], "_owner": owner}
            kept += [Lease(*row) for row in connection.execute(self._renew, some)]
        epochs = {lease.id: lease.epoch for lease in leases}
        return [lease for lease in kept if epochs[lease.id] == lease.epoch]

    def clear_earlier_boots(self, connection: sa.Connection, owner: Owner) -> int:
        """End the leases of this instance's earlier lives at once; return how many there were.

        An SQLite file has one process at a time, so there all other owners are such. The rows keep
        their owner until they are claimed, by which a claim sees that it was lost.
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
