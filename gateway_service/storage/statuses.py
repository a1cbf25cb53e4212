"""What is known of an account's connection, written by the replica that holds it."""

from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection

from gateway_service.storage import inbox, outbox
from gateway_service.storage.schema import account
from gateway_service.storage.schema import inbox as inbox_table
from gateway_service.storage.schema import outbox as outbox_table
from services.database import db_now


class ConnectionStatus(Struct, frozen=True):
    """How an account is connected."""

    connected_at: datetime | None = None
    """None unless the platform answers."""
    rate_limited_until: datetime | None = None
    problem: str = ""
    """Why it is not connected, as far as known."""


class AccountStatus(Struct, frozen=True):
    """An account as any replica sees it."""

    platform: str
    account_id: str
    holder: str
    """The instance that holds it; empty if none does."""
    connection: ConnectionStatus
    last_event_at: datetime | None
    waiting_inbox_count: int
    waiting_outbox_count: int

    @property
    def state(self) -> str:
        """Return connected, connecting or disconnected."""
        if not self.holder:
            return "disconnected"
        return "connected" if self.connection.connected_at else "connecting"


def report(conn: Connection, account_id: str, status: ConnectionStatus) -> None:
    """Store how an account is connected."""
    conn.execute(sa.update(account).where(account.c.id == account_id).values(**asdict(status)))


def report_failure(conn: Connection, account_id: str, problem: str) -> None:
    """Store why an account is not connected, unless a replica holds it."""
    is_free = (account.c.id == account_id, account.c.owner.is_(None))
    failed = {"connected_at": None, "problem": problem}
    conn.execute(sa.update(account).where(*is_free).values(failed))


def read_status(conn: Connection, platform: str, account_id: str) -> AccountStatus:
    """Return the status of an account, which may never have been held."""
    row = account.c
    query = sa.select(
        row.owner,
        (row.lease_until > db_now()).label("is_held"),
        row.connected_at,
        row.rate_limited_until,
        row.problem,
    ).where(row.id == f"{platform}:{account_id}")
    found = conn.execute(query).one_or_none()
    is_held = found is not None and bool(found.owner and found.is_held)
    status = ConnectionStatus()
    if found is not None:
        limit = found.rate_limited_until if is_held else None
        since = found.connected_at if is_held else None
        status = ConnectionStatus(since, limit, found.problem or "")
    return AccountStatus(
        platform,
        account_id,
        found.owner.rpartition("/")[0] if found is not None and is_held else "",
        status,
        _last_event(conn, platform, account_id),
        _count(conn, inbox_table, platform, account_id, inbox.OPEN),
        _count(conn, outbox_table, platform, account_id, outbox.OPEN),
    )


def _last_event(conn: Connection, platform: str, account_id: str) -> datetime | None:
    of_account = sa.select(inbox_table.c.received_at).filter_by(
        platform=platform, account_id=account_id
    )
    last = of_account.order_by(inbox_table.c.sequence.desc()).limit(1)
    return conn.execute(last).scalar_one_or_none()


def _count(
    conn: Connection, table: sa.Table, platform: str, account_id: str, states: tuple[str, ...]
) -> int:
    query = sa.select(sa.func.count()).select_from(table)
    of_account = query.filter_by(platform=platform, account_id=account_id)
    return conn.execute(of_account.where(table.c.state.in_(states))).scalar_one()
