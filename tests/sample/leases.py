"""A table of work that owners claim, and what a test does with it."""

import sqlalchemy as sa

from services.database import Database, UtcTime
from services.database.leases import Lease, LeaseTable, Owner
from tests.fakes.clock import ManualClock

metadata = sa.MetaData()
work = sa.Table(
    "work",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("owner", sa.String(80)),
    sa.Column("endpoint", sa.String(80)),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("lease_until", UtcTime),
    sa.Column("state", sa.String(16), nullable=False),
)
LEASES = LeaseTable(work, claimable=work.c.state.in_(("QUEUED", "RUNNING")))
NEW = {"epoch": 0, "version": 0, "state": "QUEUED"}
ONE, OTHER = Owner("one", "boot_a"), Owner("other", "boot_b")


class Work:
    """A table of work with leases that a test moves through time."""

    def __init__(self, database: Database, clock: ManualClock) -> None:
        self.database = database
        self.clock = clock

    async def add(self, *ids: str, state: str = "QUEUED") -> None:
        rows = [{**NEW, "id": row_id, "state": state} for row_id in ids]
        await self.database.write(lambda c: c.execute(sa.insert(work), rows))

    async def claim(self, row_id: str, owner: Owner, **values: object) -> Lease | None:
        return await self.database.write(lambda c: LEASES.claim(c, row_id, owner, **values))

    async def claimed(self, row_id: str, owner: Owner) -> Lease:
        lease = await self.claim(row_id, owner)
        assert lease is not None
        return lease

    async def fence(self, lease: Lease, **values: object) -> None:
        await self.database.write(lambda c: LEASES.fence(c, lease, **values))

    async def row(self, row_id: str) -> sa.Row[*tuple[object, ...]]:
        query = sa.select(work).where(work.c.id == row_id)
        return await self.database.read(lambda c: c.execute(query).one())
