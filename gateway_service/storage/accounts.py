"""Accounts of platforms, each connected and served by one process."""

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa
from msgspec import Struct

from gateway_service.messages import Address, Source
from gateway_service.storage.schema import account
from services.database import Database, insert_ignore
from services.database.leases import Lease, LeaseTable

_T = TypeVar("_T")

INBOX = "gateway_inbox"
"""Signals new events."""
OUTBOX = "gateway_outbox"
"""Signals new messages to send."""

_ADD = insert_ignore(account)


def lease_table(ttl_s: float) -> LeaseTable:
    """Return the leases of accounts."""
    return LeaseTable(account, ttl_s=ttl_s)


def add(conn: sa.Connection, account_id: str) -> None:
    """Store an account without an owner; an existing one stays as it is."""
    conn.execute(_ADD, {"id": account_id, "epoch": 0, "version": 0, "cursor": ""})


def read_cursor(conn: sa.Connection, account_id: str) -> str:
    """Return where an account's platform continues; empty at first."""
    query = sa.select(account.c.cursor).where(account.c.id == account_id)
    return conn.execute(query).scalar_one_or_none() or ""


def store_cursor(conn: sa.Connection, account_id: str, cursor: str) -> None:
    """Store where an account's platform continues."""
    conn.execute(sa.update(account).where(account.c.id == account_id).values(cursor=cursor))


class AccountLease(Struct, frozen=True):
    """An account as held by its owner; every write fails if the lease was lost."""

    platform: str
    account_id: str
    profile: str
    database: Database
    leases: LeaseTable
    lease: Lease

    @property
    def id(self) -> str:
        return f"{self.platform}:{self.account_id}"

    def address(self, source: Source) -> Address:
        """Return the address for answers to a source."""
        if source.answers_to is not None:
            return source.answers_to
        account_id, profile = self.account_id, self.profile
        return Address(profile, self.platform, account_id, source.chat_id, source.thread_id)

    async def write(self, fn: Callable[[sa.Connection], _T], notify: str | None = None) -> _T:
        """Run `fn` as the owner; Fenced if the lease was lost."""

        def fenced(conn: sa.Connection) -> _T:
            self.leases.fence(conn, self.lease)
            return fn(conn)

        return await self.database.write(fenced, notify)
